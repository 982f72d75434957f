#pragma once

#include <memory>
#include <vector>

#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// The optimizer steps of ranks that each keep the optimizer's state of their shard alone; see sharded_update.cpp.
class ShardedUpdate {
 public:
  /// \param run with state_shards, and an optimizer that is made for the shard of run.communicator's rank
  explicit ShardedUpdate(StepTerms& run);

  /// The sum that `step` needs, of what the backward pass makes ready; null where it makes its own.
  std::unique_ptr<GradientExchange> make_sum();
  /// Before the gradient of a step is computed: removes what the last one left in g between blocks and in frozen ones,
  /// where nothing is written.
  void clear();
  /// θ ← the optimizer's step, on all ranks with the same bits. On return each rank's slices of g hold the sum; the
  /// rest is undefined. Collective.
  void step(double learning_rate);

 private:
  void step_summed_blocks(double learning_rate);
  void step_slices(double learning_rate);
  void step_shard(double learning_rate);
  void step_part(const FloatRange& range, Index begin);

  /// A bucket, the rank's slice of it, and where in the rank's shard the slice begins.
  struct Piece {
    FloatRange bucket, slice;
    Index begin = 0;
  };

  StepTerms& run_;
  std::vector<Piece> pieces_;
  std::vector<FloatRange> own_;  ///< the slices that are not empty
  Index size_ = 0;               ///< of the rank's shard
};

}  // namespace unisono::parallel
