#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "unisono/tensor/layout.hpp"

namespace unisono {

/// A part of a block: one range for each canonical axis.
using Box = std::vector<AxisRange>;

/// The whole of a block as a Box.
Box whole_box(const Block& block);
/// How many numbers a box has.
Index size_of(const Box& box);
/// The positions that are in both ranges; empty where there are none.
std::optional<AxisRange> intersection(const AxisRange& a, const AxisRange& b);

/// Where a part of a block lies in the vector of a rank that holds it.
struct LocalBox {
  Index offset = 0;            ///< where the first number of the part lies, in floats
  std::vector<Index> counts;   ///< positions along each canonical axis
  std::vector<Index> strides;  ///< floats from one position to the next along each canonical axis
};

/// A part of a block that one rank holds.
struct Shard {
  std::size_t block = 0;  ///< the block's number in the layout
  Box box;
  LocalBox place = {};  ///< where the part lies in the rank's vector
  /// Which copy of the vector the shard belongs to: copy 0 is the one that is written to files. Or kAgain.
  int copy = 0;

  /// Another rank that holds the same copy has these numbers, too, and counts them in norms.
  static constexpr int kAgain = -1;
};

/// Shards of all blocks, placed as a vector with this layout has them.
std::vector<Shard> whole_shards(const ParameterLayout& layout);
/// Where a part of a shard lies. \param box a part of the shard's box
LocalBox locate(const Shard& shard, const Box& box);
/// The part of a shard at positions [first, last) along the first axis, counted from the shard's first position.
Shard rows_of(const Shard& shard, Index first, Index last);

/// Which shards of θ each rank holds. All vectors of θ's size (gradient, optimizer state) are sharded alike.
///
/// There are `copies()` copies of θ; the shards of one copy hold every number of θ exactly once, but for those of
/// Shard::kAgain. A rank keeps its shards in a vector of its own. The layout of that vector is `local(rank)`: the
/// map's own, whose block i is shard i, or one that the ranks are given, whose blocks may have several shards. A shard
/// of whole rows keeps the block's row stride, and shards of the same rows of interleaved blocks are interleaved again;
/// so a rank that holds all of θ has θ's own layout.
class ShardMap {
 public:
  /// \param shards shards of each rank; empty shards are dropped, and the map says where the others lie
  /// \throws std::logic_error where a shard's block, box or copy does not exist, or where the shards of a copy do not
  /// hold each number exactly once
  ShardMap(ParameterLayout layout, int copies, std::vector<std::vector<Shard>> shards);

  /// What a rank holds, and where.
  struct Held {
    std::vector<Shard> shards;  ///< with their places
    ParameterLayout layout;     ///< of the rank's vector
  };
  /// For ranks whose shards have places. \throws std::logic_error as above
  ShardMap(ParameterLayout layout, int copies, std::vector<Held> held);

  const ParameterLayout& layout() const { return layout_; }  ///< layout of all of θ
  int ranks() const { return static_cast<int>(held_.size()); }
  int copies() const { return copies_; }
  const std::vector<Shard>& shards_of(int rank) const { return held_[static_cast<std::size_t>(rank)].shards; }
  /// The layout of a rank's vector: one block for each of its shards, in the shard's shape.
  const ParameterLayout& local(int rank) const { return held_[static_cast<std::size_t>(rank)].layout; }

  /// Hash of the layout and the shards. It must be equal on all ranks of the map.
  std::uint64_t hash() const;

 private:
  void require_valid(const Shard& shard) const;
  void require_whole_copies() const;

  ParameterLayout layout_;
  int copies_;
  std::vector<Held> held_;  ///< by rank
};

/// What ranks hold whose layers are divided among them (Block::cut). Of a block that several of them have as a whole,
/// or in part, the first one's numbers count; the others have them again.
/// \param whole layout of the whole vector
/// \param layouts of the vectors of the ranks that hold one copy together; blocks have the names of the whole ones
/// \param copy the copy that they hold
/// \throws std::out_of_range for a block that the whole vector does not have
std::vector<ShardMap::Held> divided_shards(const ParameterLayout& whole, const std::vector<ParameterLayout>& layouts,
                                           int copy);

/// Calls visit(canonical position of the first number in the block, step to the next, count) for each run of the box
/// along its last axis.
void for_each_run(const Block& block, const Box& box,
                  const std::function<void(Index position, Index step, Index count)>& visit);

/// packed[…] = a box's numbers, in canonical order. \param packed [size of the box]
void pack(const LocalBox& box, View vector, MutableView packed);
/// A box's numbers = packed[…], in canonical order. \param packed [size of the box]
void unpack(const LocalBox& box, View packed, MutableView vector);

/// How vectors that are laid out as θ are cut for methods that work on all elements alike: into pieces of whole cache
/// lines, whose bounds depend on the vector's size alone; each rank has consecutive pieces, its shard. Sums that are
/// made within pieces, and then over the pieces in order, have the same bits for every number of ranks.
class VectorShards {
 public:
  static constexpr Index kPieces = 256;

  /// \param size floats of a vector, padding included
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

/// The parts of a rank's shards in floats [range) of its vector; padding is in none of the parts. The parts' places
/// count from the start of the range.
std::vector<Shard> parts_of(const std::vector<Shard>& shards, const FloatRange& range);

}  // namespace unisono
