#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "unisono/tensor/layout.hpp"

namespace unisono {

/// Positions first, first + step, … along an axis, `count` of them.
struct AxisRange {
  Index first = 0, count = 0, step = 1;
  Index last() const { return first + (count - 1) * step; }  ///< the largest position; needs count ≥ 1
  bool operator==(const AxisRange&) const = default;
};
/// A part of a block: one range for each canonical axis.
using Box = std::vector<AxisRange>;

/// All of a block.
Box whole_box(const Block& block);
Index size_of(const Box& box);
/// What lies in both; nothing where they share no position.
std::optional<AxisRange> intersection(const AxisRange& a, const AxisRange& b);
std::optional<Box> intersection(const Box& a, const Box& b);

/// What one rank holds of one block.
struct Shard {
  std::size_t block = 0;  ///< its number in the layout
  Box box;
  int holder = 0;  ///< the rank
  int copy = 0;    ///< which of the map's copies of θ it is a part of
};

/// A number of θ by what never changes when θ is divided in another way.
struct Element {
  std::size_t block = 0;  ///< its number in the layout
  Index position = 0;     ///< in the block's canonical order
  bool operator==(const Element&) const = default;
};

/// What each rank holds of θ, described once: everything that is sized by θ follows it.
///
/// θ exists in `copies()` copies; those shards that belong to one copy hold every number of θ exactly once. A rank
/// keeps its shards as a vector of its own, in the order of the map, laid out as ParameterLayout says: shard i is block
/// i of `local(rank)`. A shard of whole rows keeps the block's row stride, and shards of equal rows of blocks whose
/// rows lie beside each other lie beside each other again; so a rank that holds all of θ has θ's own layout.
class ShardMap {
 public:
  /// \param shards those that hold nothing are dropped
  /// \throws std::logic_error where a shard is not a part of its block or names no rank or copy, or where the shards of
  /// a copy do not hold each number once
  ShardMap(ParameterLayout layout, int ranks, int copies, std::vector<Shard> shards);

  // Makers -----------------------------------------------------------------------------------------------------------

  /// Every rank holds a copy of all.
  static ShardMap whole(ParameterLayout layout, int ranks);
  /// Whole blocks, consecutive ones on one rank, divided so that the ranks hold about equally much.
  static ShardMap by_blocks(ParameterLayout layout, int ranks);
  /// Each block's rows (its first axis) in equal parts.
  static ShardMap by_rows(ParameterLayout layout, int ranks);
  /// Each block's columns (its second axis) in equal parts; a block of one axis is divided along that.
  static ShardMap by_columns(ParameterLayout layout, int ranks);
  /// Each block's rows in proportion to the ranks' weights, one of which at least is positive: 0 holds nothing.
  static ShardMap by_weights(ParameterLayout layout, const std::vector<Index>& weights);
  /// Stage s holds the blocks from first_blocks[s] on, up to the next stage's; each replica has a copy of all. Ranks
  /// are replicas × stages, as in a process grid. \param first_blocks ascending, from 0 on
  static ShardMap stages(ParameterLayout layout, const std::vector<std::size_t>& first_blocks, int replicas);

  // Queries ----------------------------------------------------------------------------------------------------------

  const ParameterLayout& layout() const { return layout_; }  ///< of all of θ
  int ranks() const { return static_cast<int>(held_.size()); }
  int copies() const { return copies_; }
  const std::vector<Shard>& shards_of(int rank) const { return held_[static_cast<std::size_t>(rank)].shards; }
  /// How a rank's vector is laid out: a block for each of its shards, with the shape that it has there.
  const ParameterLayout& local(int rank) const { return held_[static_cast<std::size_t>(rank)].layout; }

  /// What lies at an offset of a rank's vector; nothing where that is padding.
  std::optional<Element> element_at(int rank, Index offset) const;
  /// Where it lies in a rank's vector; nothing where the rank does not hold it.
  std::optional<Index> offset_of(int rank, Element element) const;
  /// The ranks that hold something of a part of a block, ascending.
  std::vector<int> holders(std::size_t block, const Box& box) const;
  /// The copy that a rank takes a block's numbers from: its own where it holds some of the block, so that as little as
  /// can be travels; else one chosen by its number.
  int copy_for(int rank, std::size_t block) const;

  /// Of the layout and the shards. Ranks that divide θ together must agree on it.
  std::uint64_t hash() const;

 private:
  struct Held {
    std::vector<Shard> shards;
    ParameterLayout layout;
  };

  void require_valid(const Shard& shard) const;
  void require_whole_copies() const;

  ParameterLayout layout_;
  int copies_;
  std::vector<Held> held_;  ///< by rank
};

/// Where a part of a block lies in the vector of a rank that holds it.
struct LocalBox {
  Index offset = 0;            ///< of its first number, in floats
  std::vector<Index> counts;   ///< along the canonical axes
  std::vector<Index> strides;  ///< floats from one position to the next, likewise
};
/// \param number of the shard among the rank's \param box a part of the shard's
LocalBox locate(const ShardMap& map, int rank, std::size_t number, const Box& box);

/// Calls visit(canonical position in the block, positions from one to the next, numbers) for runs along the last axis.
void for_each_run(const Block& block, const Box& box,
                  const std::function<void(Index position, Index step, Index count)>& visit);

/// packed[…] = the box's numbers, in canonical order. \param packed [size of the box]
void pack(const LocalBox& box, View vector, MutableView packed);
/// The box's numbers = packed[…], likewise.
void unpack(const LocalBox& box, View packed, MutableView vector);

}  // namespace unisono
