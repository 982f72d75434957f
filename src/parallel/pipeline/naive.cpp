// Naive model parallelism: one stage works at a time.
//   for each micro-batch i:
//     forward i              passes through all stages, one after the other,
//     backward i             and comes back
// Each stage does the same; the first one begins with the next micro-batch when the gradient of the last one is back.
// Length m·S·(F+B+W): the speed of one rank that had the memory of all. Flights: 1.
#include "pipeline/schedules.hpp"

namespace unisono::parallel {

Program naive_program(int stages, int micro_batches) {
  std::vector<Operation> operations;
  for (int i = 0; i < micro_batches; ++i) {
    operations.push_back({OperationKind::forward, 0, i});
    operations.push_back({OperationKind::backward, 0, i});
  }
  return {stages, 1, micro_batches, std::vector(static_cast<std::size_t>(stages), operations)};
}

}  // namespace unisono::parallel
