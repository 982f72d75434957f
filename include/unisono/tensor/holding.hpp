#pragma once

#include <cstdint>
#include <vector>

#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/layout.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono {

/// Floats of a rank's vector that belong to one block: numbers of the block, and the padding up to the next block.
struct BlockRange {
  FloatRange floats;
  std::size_t block = 0;  ///< the block's number in the layout of the whole vector
  bool counts = true;     ///< in norms; false: another rank of the same copy has these numbers and counts them
};

/// The floats of ranges that follow each other and count; ranges that touch become one.
std::vector<FloatRange> joined(const std::vector<BlockRange>& ranges);

/// What this rank holds of θ, or of a vector that is divided among the ranks as θ is: the gradient, an optimizer's
/// vector, an average. Whoever works on such vectors (update rules, norms, initialisers, checkpoints, predictions of
/// memory) asks this and nothing else.
///
/// The ranks hold one or several copies of the whole vector. Where a number lies in a rank's memory is the rank's own
/// affair: its random stream, its place in a norm's sum and its place in a file depend on its block in the whole vector
/// and its position in that block.
class Holding {
 public:
  virtual ~Holding() = default;

  /// The layout of the whole vector.
  virtual const ParameterLayout& layout() const = 0;
  /// Floats of this rank's vector, padding included.
  virtual Index size() const = 0;
  /// The parts of blocks that this rank holds now, and the parts' places in its vector.
  virtual std::vector<Shard> shards() const = 0;
  /// What this rank holds, as ranges of its vector by blocks, ascending and disjoint: what update rules and norms go
  /// through. Where rows of several blocks are interleaved, these blocks share the floats of all rows in some way.
  virtual std::vector<BlockRange> ranges() const = 0;
  /// Whether every rank holds the whole vector, in the layout's own order.
  virtual bool held_by_all() const = 0;
  /// Sums over the ranks that hold one copy together, each number once; null: norms of what this rank holds take no
  /// other rank, since this rank has a copy of its own, or whole blocks of which it alone makes the steps.
  virtual SquaresReducer* squares() const = 0;
  /// A hash that is equal on all ranks where they agree on what each of them holds.
  virtual std::uint64_t hash() const = 0;
  /// Where what a rank holds changes from step to step: from now on the rank's vector is that of the beginning of step
  /// `step`. No values are moved; the caller then writes stored values into it.
  virtual void begin(std::int64_t /*step*/) {}
};

/// A Holding where every rank holds the whole vector.
class WholeHolding final : public Holding {
 public:
  /// \param layout must outlive the object
  explicit WholeHolding(const ParameterLayout& layout) : layout_(layout) {}

  const ParameterLayout& layout() const override { return layout_; }
  Index size() const override { return layout_.size(); }
  std::vector<Shard> shards() const override { return whole_shards(layout_); }
  std::vector<BlockRange> ranges() const override;
  bool held_by_all() const override { return true; }
  SquaresReducer* squares() const override { return nullptr; }
  std::uint64_t hash() const override { return layout_.hash(); }

 private:
  const ParameterLayout& layout_;
};

/// A Holding where each rank holds what a map says, for example the blocks of its stage of a pipeline.
class MapHolding final : public Holding {
 public:
  /// \param map must outlive the object \param squares adds up over the ranks of one copy; not used where every rank
  /// holds all of the vector
  MapHolding(const ShardMap& map, int rank, SquaresReducer& squares);

  const ParameterLayout& layout() const override { return map_.layout(); }
  Index size() const override { return map_.local(rank_).size(); }
  std::vector<Shard> shards() const override { return map_.shards_of(rank_); }
  std::vector<BlockRange> ranges() const override;
  bool held_by_all() const override { return held_by_all_; }
  SquaresReducer* squares() const override { return held_by_all_ ? nullptr : &squares_; }
  std::uint64_t hash() const override { return map_.hash(); }

 private:
  const ShardMap& map_;
  int rank_;
  SquaresReducer& squares_;
  bool held_by_all_;
};

}  // namespace unisono
