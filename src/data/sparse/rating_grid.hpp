#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "order/slice.hpp"
#include "unisono/data/grid.hpp"
#include "unisono/tensor/sparse.hpp"

namespace unisono::data {

/// Ratings dealt to side × side blocks: that of item i by user u to row u mod side and column i mod side of the grid.
/// Blocks of different rows and columns share neither users nor items.
class RatingGrid {
 public:
  /// \param rows of the grid whose ratings are kept in memory
  /// \param local the kept users are numbered from 0 on, row after row of the grid, and the items of each column
  RatingGrid(Index side, Index users, Range rows, bool local);

  /// How many blocks a side has for so many ratings: 1,024 users or items a block and 512 ratings, about.
  static Index side(Index users, Index items, std::int64_t ratings);

  void count(const SparseEntry& entry) { ++sizes_[block_of(entry)]; }
  /// All are counted: from here on, blocks have their places, the first one at `base`.
  void place(std::int64_t base);
  /// Puts an entry into its block, where that is in `rows`, and only once for each that was counted.
  void put(const SparseEntry& entry, Range rows, SparseEntry* entries);
  /// Puts the ratings of each block in these rows into random order, a function of (seed, block, how many).
  void shuffle(std::uint64_t seed, Range rows, SparseEntry* entries) const;

  Index side() const { return side_; }
  Range rows() const { return rows_; }
  std::int64_t kept() const;  ///< ratings in memory
  std::int64_t all() const;   ///< … and of the whole grid
  /// Where the block's ratings are in memory; its row must be kept.
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
  std::vector<std::int64_t> next_;   ///< [kept rows · side] where its next one goes
};

}  // namespace unisono::data
