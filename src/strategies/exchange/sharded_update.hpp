#pragma once

#include <vector>

#include "unisono/strategies/state_shards.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The optimizer steps of ranks that each keep the optimizer's state of their shard alone; see sharded_update.cpp.
class ShardedUpdate {
 public:
  /// \param run its optimizer is made for the shard of run.communicator's rank
  explicit ShardedUpdate(TrainContext& run);

  /// Before the gradient of a step is computed: removes what the last one left in g between blocks and in frozen ones,
  /// where nothing is written.
  void clear();
  /// θ ← the optimizer's step, on all ranks with the same bits. Collective.
  ///   On entry each rank's slices of g hold the sum, as make_scattered_sum leaves it. On return the rank's shard of g
  ///   is at the front of g, and the rest is undefined.
  void step(double learning_rate);

 private:
  TrainContext& run_;
  StateShards shards_;
  std::vector<FloatRange> own_;  ///< this rank's slices
  Index size_;                   ///< of its shard
};

}  // namespace unisono::strategies
