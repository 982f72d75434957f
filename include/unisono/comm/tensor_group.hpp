#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/comm/sum_tree.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::comm {

/// The TensorGroup of a communicator's ranks, which must outlive it. Measures the time that sums take.
class CommunicatorTensorGroup final : public TensorGroup {
 public:
  explicit CommunicatorTensorGroup(Communicator& ranks, const Clock& clock = steady_clock())
      : ranks_(ranks), clock_(clock), order_(order_of(ranks.size())) {}

  void sum(std::span<double> values) override;
  void sum_leaves(MutableView values) override;

  double seconds() const { return seconds_; }    ///< spent in sums so far
  std::int64_t bytes() const { return bytes_; }  ///< of the values of all sums so far
  std::int64_t sums() const { return sums_; }    ///< how many there were

 private:
  static TreeSum order_of(int ranks);

  Communicator& ranks_;
  const Clock& clock_;
  TreeSum order_;  ///< of the ranks' values, each a node of the tree
  double seconds_ = 0;
  std::int64_t bytes_ = 0, sums_ = 0;
};

}  // namespace unisono::comm
