#include <fmt/format.h>

#include <stdexcept>

#include "pipeline/program.hpp"

namespace unisono::parallel {
namespace {

/// The micro-batch whose pass comes next, for each kind of pass of a piece.
struct NextPasses {
  int forward = 0, inputs = 0, weights = 0;
};

/// Whether the operation is the next of its kind; counts it.
bool comes_next(NextPasses& next, const Operation& operation) {
  const int i = operation.micro_batch;
  switch (operation.kind) {
    case OperationKind::forward:
      return i == next.forward++;
    case OperationKind::backward:
      return i < next.forward && i == next.inputs++ && i == next.weights++;
    case OperationKind::backward_inputs:
      return i < next.forward && i == next.inputs++;
    case OperationKind::backward_weights:
      return i < next.inputs && i == next.weights++;
  }
  return false;
}

void require_sizes(const Program& program) {
  const bool positive = program.stages >= 1 && program.chunks >= 1 && program.micro_batches >= 1;
  if (positive && program.ranks.size() == static_cast<std::size_t>(program.stages)) return;
  throw std::logic_error(fmt::format("pipeline: no program has {} stages, {} chunks, {} micro-batches and {} lists",
                                     program.stages, program.chunks, program.micro_batches, program.ranks.size()));
}

/// Checks one stage's list: everything once, and in the order of the micro-batches.
void require_each_once(const Program& program, std::size_t stage, bool trains) {
  std::vector<NextPasses> next(static_cast<std::size_t>(program.chunks));
  for (const Operation& operation : program.ranks[stage]) {
    const bool in_range = operation.chunk >= 0 && operation.chunk < program.chunks && operation.micro_batch >= 0 &&
                          operation.micro_batch < program.micro_batches;
    if (in_range && comes_next(next[static_cast<std::size_t>(operation.chunk)], operation)) continue;
    throw std::logic_error(
        fmt::format("pipeline: stage {}: the {} is out of order or out of range", stage, text_of(operation)));
  }
  const int all = program.micro_batches;
  for (int chunk = 0; chunk < program.chunks; ++chunk) {
    const NextPasses& passes = next[static_cast<std::size_t>(chunk)];
    const auto require_all = [&](OperationKind kind, int count, int wanted) {
      if (count == wanted) return;
      throw std::logic_error(
          fmt::format("pipeline: stage {}: the {} is missing", stage, text_of({kind, chunk, count})));
    };
    require_all(OperationKind::forward, passes.forward, all);
    require_all(OperationKind::backward_inputs, passes.inputs, trains ? all : 0);
    require_all(OperationKind::backward_weights, passes.weights, trains ? all : 0);
  }
}

bool has_backward_passes(const Program& program) {
  for (const auto& operations : program.ranks) {
    for (const Operation& operation : operations) {
      if (operation.kind != OperationKind::forward) return true;
    }
  }
  return false;
}

}  // namespace

void require_valid(const Program& program) {
  require_sizes(program);
  const bool trains = has_backward_passes(program);
  for (std::size_t stage = 0; stage < program.ranks.size(); ++stage) require_each_once(program, stage, trains);
  execution_order(program);
}

}  // namespace unisono::parallel
