#pragma once

#include <memory>
#include <vector>

#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/parallel/step_terms.hpp"

namespace unisono::parallel {

/// The optimizer steps of ranks of which each keeps the optimizer's state of its own shard alone; see
/// sharded_update.cpp.
class ShardedUpdate {
 public:
  /// \param run with state_shards, and an optimizer that is made for the shard of run.communicator's rank
  explicit ShardedUpdate(StepTerms& run);

  /// The exchange that sums for `step` what the backward pass makes ready; null where `step` sums by itself.
  std::unique_ptr<GradientExchange> make_sum();
  /// Called before the gradient of a step is computed: clears what the last step left in g between blocks and in frozen
  /// blocks, where nothing is written.
  void clear();
  /// θ ← the optimizer's step, on all ranks with the same bits. On return each rank's slices of g hold the sum; the
  /// rest of g is undefined. Collective.
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
  Index size_ = 0;               ///< floats of the rank's shard
};

}  // namespace unisono::parallel
