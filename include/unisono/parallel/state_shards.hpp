#pragma once

#include <vector>

#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {

/// Where the optimizer's state is sharded: see StateShards.
enum class Sharding {
  never,
  where_faster,  ///< where the CPUs of all replicas share memory, and the caches do not hold the vectors
  always
};

/// Whether the ranks of a node make steps faster with shards and one copy of θ: where all their copies of θ, g and
/// state together take so much that a step's speed is that of memory, whose traffic shards reduce. Below that, cache
/// lines that travel between cores cost as much as the shorter updates save. \param floats of θ \param states vectors
/// of the optimizer
bool are_faster_on_one_node(Index floats, int states, int ranks);

/// Which floats of θ each rank updates, where the optimizer's state is sharded: slice r (comm::line_slice_of) of each
/// bucket in which the gradient is summed. A rank's shard of a vector is its slices, one behind the other.
class StateShards {
 public:
  /// \param size floats of θ, padding included \param bucket_bytes above 0, as for comm::GradientBuckets
  StateShards(Index size, Index bucket_bytes, int ranks);

  int ranks() const { return ranks_; }
  Index bucket_bytes() const { return bucket_bytes_; }
  /// A rank's slice of a bucket; may be empty.
  FloatRange slice_of(const FloatRange& bucket, int rank) const;
  /// Ascending, disjoint, whole cache lines; none is empty.
  std::vector<FloatRange> ranges_of(int rank) const;
  /// Floats of a rank's shard.
  Index size_of(int rank) const;
  /// The buckets of θ, from its start to its end.
  const std::vector<FloatRange>& buckets() const { return buckets_; }

 private:
  Index bucket_bytes_;
  int ranks_;
  std::vector<FloatRange> buckets_;
};

}  // namespace unisono::parallel
