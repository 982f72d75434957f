#include "pipeline/program.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace unisono::parallel {
namespace {

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::forward:
      return "forward pass";
    case OperationKind::backward:
      return "backward pass";
    case OperationKind::backward_inputs:
      return "backward pass for inputs";
    case OperationKind::backward_weights:
      return "backward pass for weights";
  }
  return "";
}

/// Which passes of each piece and micro-batch are done.
class Done {
 public:
  explicit Done(const Program& program)
      : program_(program), forward_(size_of(program), false), inputs_(size_of(program), false) {}

  bool has_all_for(int piece, const Operation& operation) const {
    const auto [kind, chunk, micro_batch] = operation;
    const auto source = program_.source_of(piece, kind);
    if (kind == OperationKind::forward) return !source || forward_[at(*source, micro_batch)];
    if (kind == OperationKind::backward_weights) return inputs_[at(piece, micro_batch)];
    return forward_[at(piece, micro_batch)] && (!source || inputs_[at(*source, micro_batch)]);
  }

  void add(int piece, const Operation& operation) {
    if (operation.kind == OperationKind::backward_weights) return;
    (operation.kind == OperationKind::forward ? forward_ : inputs_)[at(piece, operation.micro_batch)] = true;
  }

 private:
  static std::size_t size_of(const Program& program) {
    return static_cast<std::size_t>(program.pieces()) * static_cast<std::size_t>(program.micro_batches);
  }
  std::size_t at(int piece, int micro_batch) const {
    return static_cast<std::size_t>(piece) * static_cast<std::size_t>(program_.micro_batches) +
           static_cast<std::size_t>(micro_batch);
  }

  const Program& program_;
  std::vector<bool> forward_, inputs_;
};

}  // namespace

std::string text_of(const Operation& operation) {
  return fmt::format("{} of micro-batch {} in chunk {}", name_of(operation.kind), operation.micro_batch,
                     operation.chunk);
}

std::optional<int> Program::source_of(int piece, OperationKind kind) const {
  if (kind == OperationKind::backward_weights) return {};
  const int source = kind == OperationKind::forward ? piece - 1 : piece + 1;
  return source >= 0 && source < pieces() ? std::optional(source) : std::nullopt;
}

std::optional<int> Program::target_of(int piece, OperationKind kind) const {
  if (kind == OperationKind::backward_weights) return {};
  const int target = kind == OperationKind::forward ? piece + 1 : piece - 1;
  return target >= 0 && target < pieces() ? std::optional(target) : std::nullopt;
}

std::vector<OperationPlace> execution_order(const Program& program) {
  Done done(program);
  std::vector<OperationPlace> order;
  std::vector<std::size_t> next(program.ranks.size(), 0);
  std::vector<int> awake;  // stages whose next operation may have become ready
  for (int stage = program.stages; stage-- > 0;) awake.push_back(stage);
  while (!awake.empty()) {
    const int stage = awake.back();
    awake.pop_back();
    const auto rank = static_cast<std::size_t>(stage);
    for (; next[rank] < program.ranks[rank].size(); ++next[rank]) {
      const Operation& operation = program.ranks[rank][next[rank]];
      const int piece = program.piece_of(stage, operation.chunk);
      if (!done.has_all_for(piece, operation)) break;
      done.add(piece, operation);
      order.push_back({stage, next[rank]});
      if (const auto target = program.target_of(piece, operation.kind)) awake.push_back(program.stage_of(*target));
    }
  }
  for (std::size_t rank = 0; rank < next.size(); ++rank) {
    if (next[rank] == program.ranks[rank].size()) continue;
    throw std::logic_error(
        fmt::format("pipeline: stage {} waits for ever before the {}", rank, text_of(program.ranks[rank][next[rank]])));
  }
  return order;
}

}  // namespace unisono::parallel
