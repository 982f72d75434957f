// 1F1B, also called PipeDream-flush: as long as GPipe, with fewer activations in memory.
//   On stage s:
//     w ← min(m, S−s−1) forward passes, until the gradient of the first micro-batch is on its way back
//     then one forward, one backward in turn, as long as there are forward passes
//     then the w backward passes that are left
// Narayanan et al., "PipeDream: generalized pipeline parallelism for DNN training", SOSP 2019; the variant that flushes
// the pipeline at the end of each step: Narayanan et al., "Memory-efficient pipeline-parallel DNN training", ICML 2021.
// Length (m+S−1)·(F+B+W). Flights at stage s: min(m, S−s).
#include <algorithm>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {
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

}  // namespace unisono::parallel
