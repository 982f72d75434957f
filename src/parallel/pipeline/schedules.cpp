#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "pipeline/program.hpp"
#include "pipeline/schedules.hpp"

namespace unisono::parallel {
namespace {

/// The place of a message in the common order: when the pass that makes it ends, and on which stage.
using Place = std::pair<double, int>;

/// The messages of a program, and where its passes are in the common order.
class Messages {
 public:
  explicit Messages(const Program& program)
      : program_(program),
        simulated_(simulate(program, equal_costs(program.stages, program.chunks,
                                                 {.forward = 1, .backward_inputs = 1, .backward_weights = 1}))) {
    for (int stage = 0; stage < program.stages; ++stage) {
      const auto& operations = program.ranks[static_cast<std::size_t>(stage)];
      for (std::size_t i = 0; i < operations.size(); ++i) {
        const int piece = program.piece_of(stage, operations[i].chunk);
        if (program.target_of(piece, operations[i].kind)) places_[key(piece, operations[i])] = place_of(stage, i);
      }
    }
  }

  Place place_of(int stage, std::size_t operation) const {
    return {simulated_.times[static_cast<std::size_t>(stage)][operation].end, stage};
  }
  /// Of the message that an operation needs; null where it needs none.
  const Place* needed_by(int stage, const Operation& operation) const {
    const auto source = program_.source_of(program_.piece_of(stage, operation.chunk), operation.kind);
    return source ? &places_.at(key(*source, operation)) : nullptr;
  }

 private:
  using Key = std::tuple<int, bool, int>;  ///< the piece that makes it, whether it is forward, the micro-batch
  static Key key(int piece, const Operation& operation) {
    return {piece, operation.kind == OperationKind::forward, operation.micro_batch};
  }

  const Program& program_;
  Simulation simulated_;
  std::map<Key, Place> places_;
};

}  // namespace

MessageOrder message_order(const Program& program, int stage) {
  const Messages messages(program);
  const auto& operations = program.ranks[static_cast<std::size_t>(stage)];
  std::vector<std::pair<Place, std::size_t>> receives;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (const Place* const place = messages.needed_by(stage, operations[i])) receives.emplace_back(*place, i);
  }
  std::ranges::sort(receives);
  MessageOrder order;
  for (const auto& [place, operation] : receives) order.receives.push_back(operation);
  // What an operation makes comes after all that comes before it, and so does all that later operations make.
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const auto later =
        std::ranges::lower_bound(receives, messages.place_of(stage, i), {}, &std::pair<Place, std::size_t>::first);
    order.before.push_back(static_cast<std::size_t>(later - receives.begin()));
  }
  return order;
}

Program make_program(PipelineSchedule schedule, int stages, int chunks, int micro_batches) {
  if (schedule == PipelineSchedule::interleaved) return interleaved_program(stages, chunks, micro_batches);
  if (chunks != 1) throw std::logic_error("pipeline: several chunks, but the schedule is not interleaved");
  switch (schedule) {
    case PipelineSchedule::naive:
      return naive_program(stages, micro_batches);
    case PipelineSchedule::gpipe:
      return gpipe_program(stages, micro_batches);
    case PipelineSchedule::zero_bubble:
      return zero_bubble_program(stages, micro_batches);
    default:
      return one_forward_one_backward_program(stages, micro_batches);
  }
}

std::vector<int> interleaved_groups(int stages, int micro_batches) {
  const int groups = std::max(1, micro_batches / stages);
  std::vector<int> sizes(static_cast<std::size_t>(groups), micro_batches / groups);
  std::for_each(sizes.begin(), sizes.begin() + micro_batches % groups, [](int& size) { ++size; });
  return sizes;
}

// for each group of micro-batches: for each chunk: forward of each micro-batch
// Length (m + (S−1)/v)·F for m ≥ S. No flights: nothing is kept for a backward pass.
Program forward_program(int stages, int chunks, int micro_batches) {
  std::vector<Operation> operations;
  int first = 0;
  for (const int size : interleaved_groups(stages, micro_batches)) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = first; i < first + size; ++i) operations.push_back({OperationKind::forward, chunk, i});
    }
    first += size;
  }
  return {stages, chunks, micro_batches, std::vector(static_cast<std::size_t>(stages), operations)};
}

}  // namespace unisono::parallel
