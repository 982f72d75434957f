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
#include <algorithm>
#include <utility>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {
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
