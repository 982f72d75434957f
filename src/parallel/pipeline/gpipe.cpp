// GPipe: all forward passes, then all backward passes.
//   for each micro-batch i: forward i
//   for each micro-batch i: backward i
// Huang et al., "GPipe: efficient training of giant neural networks using pipeline parallelism", NeurIPS 2019. There
// the backward passes begin with the last micro-batch; here they come in the order of the micro-batches, in which the
// gradients of weights are added. Length and memory are the same.
// Length (m+S−1)·(F+B+W). Flights: m.
#include "pipeline/schedules.hpp"

namespace unisono::parallel {

Program gpipe_program(int stages, int micro_batches) {
  std::vector<Operation> operations;
  for (const OperationKind kind : {OperationKind::forward, OperationKind::backward}) {
    for (int i = 0; i < micro_batches; ++i) operations.push_back({kind, 0, i});
  }
  return {stages, 1, micro_batches, std::vector(static_cast<std::size_t>(stages), operations)};
}

}  // namespace unisono::parallel
