#include "pipeline/schedules.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

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

namespace {

struct ChunkPass {
  int chunk, micro_batch;
};

std::vector<ChunkPass> forward_order(const std::vector<int>& groups, int chunks) {
  std::vector<ChunkPass> order;
  int first = 0;
  for (const int size : groups) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      for (int i = first; i < first + size; ++i) order.push_back({chunk, i});
    }
    first += size;
  }
  return order;
}

}  // namespace

// for each group of micro-batches: for each chunk: forward of each micro-batch
// Length (m + (S−1)/v)·F for m ≥ S. No flights: nothing is kept for a backward pass.
Program forward_program(int stages, int chunks, int micro_batches) {
  std::vector<Operation> operations;
  for (const auto [chunk, i] : forward_order(interleaved_groups(stages, micro_batches), chunks)) {
    operations.push_back({OperationKind::forward, chunk, i});
  }
  return {stages, chunks, micro_batches, std::vector(static_cast<std::size_t>(stages), operations)};
}

// Naive model parallelism: one stage works at a time.
//   for each micro-batch i:
//     forward i              passes through all stages, one after the other,
//     backward i             and comes back
// Each stage does the same; the first one begins with the next micro-batch when the gradient of the last one is back.
// Length m·S·(F+B+W): the speed of one rank that had the memory of all. Flights: 1.

Program naive_program(int stages, int micro_batches) {
  std::vector<Operation> operations;
  for (int i = 0; i < micro_batches; ++i) {
    operations.push_back({OperationKind::forward, 0, i});
    operations.push_back({OperationKind::backward, 0, i});
  }
  return {stages, 1, micro_batches, std::vector(static_cast<std::size_t>(stages), operations)};
}

// GPipe: all forward passes, then all backward passes.
//   for each micro-batch i: forward i
//   for each micro-batch i: backward i
// Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism", NeurIPS 2019. There
// the backward passes begin with the last micro-batch; here they come in the order of the micro-batches, in which the
// gradients of weights are added. Length and memory are the same.
// Length (m+S−1)·(F+B+W). Flights: m.

Program gpipe_program(int stages, int micro_batches) {
  std::vector<Operation> operations;
  for (const OperationKind kind : {OperationKind::forward, OperationKind::backward}) {
    for (int i = 0; i < micro_batches; ++i) operations.push_back({kind, 0, i});
  }
  return {stages, 1, micro_batches, std::vector(static_cast<std::size_t>(stages), operations)};
}

// 1F1B, also called PipeDream-flush: as long as GPipe, with fewer activations in memory.
//   On stage s:
//     w ← min(m, S−s−1) forward passes, until the gradient of the first micro-batch is on its way back
//     then one forward, one backward in turn, as long as there are forward passes
//     then the w backward passes that are left
// Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019; the variant that flushes
// the pipeline at the end of each step: Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021.
// Length (m+S−1)·(F+B+W). Flights at stage s: min(m, S−s).

namespace {

std::vector<Operation> operations_of(int stages, int micro_batches, int stage) {
  const int ahead = std::min(micro_batches, stages - stage - 1);
  std::vector<Operation> operations;
  operations.reserve(2 * static_cast<std::size_t>(micro_batches));
  for (int i = 0; i < ahead; ++i) operations.push_back({OperationKind::forward, 0, i});
  for (int i = 0; i < micro_batches; ++i) {
    if (i + ahead < micro_batches) operations.push_back({OperationKind::forward, 0, i + ahead});
    operations.push_back({OperationKind::backward, 0, i});
  }
  return operations;
}

}  // namespace

Program one_forward_one_backward_program(int stages, int micro_batches) {
  Program program{stages, 1, micro_batches, {}};
  for (int s = 0; s < stages; ++s) program.ranks.push_back(operations_of(stages, micro_batches, s));
  return program;
}

// Interleaved 1F1B: each rank holds v chunks of the model, S pieces apart, so that a micro-batch passes every rank v
// times and the idle times at both ends of a step are v times as short.
//   A rank's forward passes come in this order, its backward passes in the same one with the chunks from the last:
//     for each group of micro-batches: for each chunk: for each micro-batch of the group
//   On stage s, with groups of at most g micro-batches:
//     w ← min(vm, (v−1)g + 2(S−s−1)) forward passes
//     then one forward, one backward in turn, as long as there are forward passes
//     then the w backward passes that are left
// Narayanan et al., "Efficient large-scale language model training on GPU clusters using Megatron-LM", SC 2021: there S
// must divide m, and groups have g = S micro-batches. With a smaller last group that order deadlocks (S = 8, m = 12:
// stage 0 waits for a gradient whose forward pass it would run later). Here the m mod S micro-batches that are left
// over are spread over the groups, which then have S ≤ g < 2S: no group is too small to fill the pipeline, and m < S
// makes one group.
// Length (m + (S−1)/v)·(F+B+W) for every m ≥ S, where F, B, W are those of all chunks of a rank.
// Flights at stage s, in micro-batches × chunks: min(vm, (v−1)g + 2(S−s) − 1); g = S where S divides m.
// Messages: v times as many as 1F1B's.

namespace {

/// \param ahead forward passes before the first backward pass that are not matched by one
std::vector<Operation> operations_of_chunks(const std::vector<ChunkPass>& order, int chunks, std::size_t ahead) {
  std::vector<Operation> operations;
  const auto run = [&](OperationKind kind, ChunkPass pass) {
    const int chunk = kind == OperationKind::forward ? pass.chunk : chunks - 1 - pass.chunk;
    operations.push_back({kind, chunk, pass.micro_batch});
  };
  for (std::size_t k = 0; k < ahead; ++k) run(OperationKind::forward, order[k]);
  for (std::size_t k = 0; k < order.size(); ++k) {
    if (k + ahead < order.size()) run(OperationKind::forward, order[k + ahead]);
    run(OperationKind::backward, order[k]);
  }
  return operations;
}

}  // namespace

Program interleaved_program(int stages, int chunks, int micro_batches) {
  const std::vector<int> groups = interleaved_groups(stages, micro_batches);
  const std::vector<ChunkPass> order = forward_order(groups, chunks);
  Program program{stages, chunks, micro_batches, {}};
  for (int s = 0; s < stages; ++s) {
    const int ahead = (chunks - 1) * groups.front() + 2 * (stages - s - 1);
    program.ranks.push_back(
        operations_of_chunks(order, chunks, std::min(order.size(), static_cast<std::size_t>(ahead))));
  }
  return program;
}

// ZB-H1: 1F1B whose backward passes are split in two. The gradients of the inputs, which the stage before waits for,
// come at once; the gradients of the weights, which nobody waits for, fill the idle times.
//   On stage s:
//     min(m, S−s) forward passes
//     for each micro-batch i:
//       backward for inputs i
//       if forward passes are left:
//         if S micro-batches are in flight: backward for weights, of the oldest
//         the next forward pass
//       else: backward for weights, of the oldest
//     the backward passes for weights that are left
// Qi et al., "Zero bubble pipeline parallelism", ICLR 2024.
// Length m(F+B+W) + (S−1)·max(F, B, F+B−W) for m ≥ S: the paper's (S−1)(F+B−W) where F and B are at least W. No order
// with S flights is shorter:
//   The last stage waits (S−1)·F for its first input.
//   The first stage waits (S−1)·B for its first gradient, since it may run no more than S forward passes before.
//   The last stage ends its last backward pass for inputs at (S−1)F + m(F+B) + (m−S)W or later, since no more than S
//   backward passes for weights may be left; the gradient then takes (S−1)·B to the first stage, which ends with W.
// Flights: at most S, where a flight ends with its backward pass for weights; 1F1B's are fewer on all stages but the
// first.

namespace {

/// The list of one stage; passes of each kind come in the order of the micro-batches.
class StageList {
 public:
  int forward_passes() const { return forward_; }
  int flights() const { return forward_ - weights_; }
  bool weights_are_due() const { return weights_ < inputs_; }
  void forward() { list_.push_back({OperationKind::forward, 0, forward_++}); }
  void backward_inputs() { list_.push_back({OperationKind::backward_inputs, 0, inputs_++}); }
  void backward_weights() { list_.push_back({OperationKind::backward_weights, 0, weights_++}); }
  std::vector<Operation> take() { return std::move(list_); }

 private:
  int forward_ = 0, inputs_ = 0, weights_ = 0;
  std::vector<Operation> list_;
};

std::vector<Operation> operations_of_stage(int stages, int micro_batches, int stage) {
  StageList list;
  while (list.forward_passes() < std::min(micro_batches, stages - stage)) list.forward();
  for (int i = 0; i < micro_batches; ++i) {
    list.backward_inputs();
    const bool more = list.forward_passes() < micro_batches;
    if (!more || list.flights() == stages) list.backward_weights();
    if (more) list.forward();
  }
  while (list.weights_are_due()) list.backward_weights();
  return list.take();
}

}  // namespace

Program zero_bubble_program(int stages, int micro_batches) {
  Program program{stages, 1, micro_batches, {}};
  for (int s = 0; s < stages; ++s) program.ranks.push_back(operations_of_stage(stages, micro_batches, s));
  return program;
}

}  // namespace unisono::parallel
