#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "order/slice.hpp"
#include "unisono/data/grid.hpp"
#include "unisono/tensor/sparse.hpp"

namespace unisono::data {

/// Ratings sorted into side × side blocks: the rating of item i by user u lies in row u mod side and column i mod side
/// of the grid. Blocks that differ in row and column share neither users nor items. Use: `count` all entries, `place`,
/// `put` all entries.
class RatingGrid {
 public:
  /// \param rows of the grid: only their ratings are kept in memory
  /// \param local whether kept entries get local numbers: users from 0 on, row after row of the grid; items from 0 on
  /// in each column
  RatingGrid(Index side, Index users, Range rows, bool local);

  /// Chooses the side for so many ratings: about 1,024 users or items per row or column, and at least 512 ratings per
  /// block on average.
  static Index side(Index users, Index items, std::int64_t ratings);

  /// First pass: counts an entry in its block.
  void count(const SparseEntry& entry) { ++sizes_[block_of(entry)]; }
  /// After the first pass: lays the kept blocks out one after another, beginning at index `base`.
  void place(std::int64_t base);
  /// Second pass: writes an entry to the next free place of its block, if the block is in `rows`. Call it once for each
  /// counted entry.
  void put(const SparseEntry& entry, Range rows, SparseEntry* entries);
  /// Shuffles the ratings inside each block of these rows: a function of (seed, block, its number of ratings).
  void shuffle(std::uint64_t seed, Range rows, SparseEntry* entries) const;

  Index side() const { return side_; }
  Range rows() const { return rows_; }
  std::int64_t kept() const;  ///< ratings in memory
  std::int64_t all() const;   ///< ratings in the whole grid
  /// The range of a block's ratings in memory. \pre its row is kept
  Range block(Index row, Index column) const;
  std::int64_t block_size(Index row, Index column) const { return sizes_[number(row, column)]; }

 private:
  std::size_t number(Index row, Index column) const { return static_cast<std::size_t>(row * side_ + column); }
  std::size_t block_of(const SparseEntry& entry) const { return number(entry.row % side_, entry.column % side_); }
  std::size_t kept_number(Index row, Index column) const { return number(row - rows_.first, column); }

  Index side_;
  Range rows_;
  bool local_;
  std::vector<Index> first_user_;    ///< [kept rows] local number of a row's first user
  std::vector<std::int64_t> sizes_;  ///< [side · side] ratings of each block
  std::vector<std::int64_t> first_;  ///< [kept rows · side + 1] where a block's ratings begin
  std::vector<std::int64_t> next_;   ///< [kept rows · side] where a block's next rating goes
};

}  // namespace unisono::data
