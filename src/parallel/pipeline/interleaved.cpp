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
#include <algorithm>

#include "pipeline/schedules.hpp"

namespace unisono::parallel {
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

}  // namespace unisono::parallel
