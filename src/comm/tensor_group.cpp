#include "unisono/comm/tensor_group.hpp"

#include <array>
#include <vector>

namespace unisono::comm {

// Where each rank has a power of two of leaves, its sum is a node of the tree of all leaves, and what is above these
// nodes is the tree of as many leaves as there are ranks.
TreeSum CommunicatorTensorGroup::order_of(int ranks) {
  std::vector<Slice> leaves;
  for (int rank = 0; rank < ranks; ++rank) leaves.push_back({rank, rank + 1});
  return {SumTree(ranks), leaves};
}

void CommunicatorTensorGroup::sum(std::span<double> values) {
  const ScopedTimer timer(seconds_, clock_);
  ranks_.allreduce_sum(values);
  bytes_ += static_cast<std::int64_t>(values.size_bytes());
  ++sums_;
}

void CommunicatorTensorGroup::sum_leaves(MutableView values) {
  const ScopedTimer timer(seconds_, clock_);
  const std::array<std::span<float>, 1> vectors{values};
  // Of two ranks, the tree is a single addition.
  const RequestPtr request =
      ranks_.size() == 2 ? ranks_.start_allreduce_sum(values) : ranks_.start_tree_sum(vectors, order_);
  request->wait();
  bytes_ += static_cast<std::int64_t>(values.size_bytes());
  ++sums_;
}

}  // namespace unisono::comm
