#pragma once

#include <vector>

#include "unisono/tensor/layout.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono {

/// How vectors that are laid out as θ are cut for methods that work on all of their elements alike: into pieces of
/// whole cache lines, whose bounds depend on the vector's size alone; each rank has consecutive pieces, its shard. Sums
/// that are made within pieces, and then over the pieces in their order, have the same bits for every number of ranks.
class VectorShards {
 public:
  static constexpr Index kPieces = 256;

  /// \param size floats, padding included
  VectorShards(Index size, int ranks) : size_(size), ranks_(ranks) {}

  Index size() const { return size_; }
  int ranks() const { return ranks_; }
  Index pieces() const;
  FloatRange piece(Index number) const;
  /// The numbers [first, last) of the pieces that a rank has.
  FloatRange pieces_of(int rank) const;
  FloatRange shard(int rank) const;
  Index shard_size(int rank) const { return shard(rank).last - shard(rank).first; }

 private:
  Index size_;
  int ranks_;
};

/// The parts of a rank's shards in floats [range) of its vector; padding is in none of them. Their places count from
/// the start of the range.
std::vector<Shard> parts_of(const std::vector<Shard>& shards, const FloatRange& range);

}  // namespace unisono
