#include "pipeline/schedules.hpp"

#include <algorithm>
#include <stdexcept>

namespace unisono::parallel {

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
