#pragma once

#include <memory>
#include <vector>

#include "unisono/tensor/holding.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {

/// The ranges of floats that belong to this rank alone in a vector that several ranks hold alike, for example the
/// slices whose optimizer state it keeps (see StateShards), or the part that a parameter server serves. No float
/// belongs to two ranks.
class SliceHolding final : public Holding {
 public:
  /// Where the slices lie in the rank's vector.
  enum class Place {
    packed,   ///< one behind the other, and nothing else
    in_place  ///< in a vector that is laid out as the vector of `from`, in which nothing else counts
  };

  /// \param from what this rank holds of the vector together with the others
  /// \param slices floats of this rank's vector in `from`: ascending, disjoint, whole cache lines
  /// \param squares adds up over all ranks that have slices; must outlive the object; null: see Holding::squares
  SliceHolding(std::shared_ptr<const Holding> from, std::vector<FloatRange> slices, Place place,
               SquaresReducer* squares);

  const ParameterLayout& layout() const override { return from_->layout(); }
  Index size() const override;
  std::vector<Shard> shards() const override;
  std::vector<BlockRange> ranges() const override;
  bool held_by_all() const override { return false; }
  SquaresReducer* squares() const override { return squares_; }
  /// The hash of what all ranks hold; the slices of a rank follow from its number.
  std::uint64_t hash() const override { return from_->hash(); }

 private:
  /// Calls see(slice, where it begins in this rank's vector).
  template <typename See>
  void for_each_slice(See see) const;

  std::shared_ptr<const Holding> from_;
  std::vector<FloatRange> slices_;
  Place place_;
  SquaresReducer* squares_;
};

/// Whether the optimizer's state is sharded: see StateShards.
enum class Sharding {
  never,
  where_faster,  ///< where the CPUs of all replicas share memory, and the caches do not hold the vectors
  always
};

/// Whether the ranks of a node make steps faster with shards and one copy of θ: where all their copies of θ, g and
/// state together take so much that a step's speed is that of memory, whose traffic shards reduce. For smaller vectors,
/// cache lines that travel between cores cost as much as the shorter updates save. \param floats floats of θ \param
/// states vectors of the optimizer
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
  /// A rank's slices of all buckets: ascending, disjoint, whole cache lines; none is empty.
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
