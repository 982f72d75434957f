#include "sparse/rating_grid.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

constexpr Index kLinesOfBlock = 1024;                // approximate users or items of a block
constexpr double kRatingsOfBlock = 512;              // on average, at least
constexpr Index kMostBlocks = 512;                   // along a side
constexpr std::uint32_t kBlockStream = 0xFFFFFFFEU;  // distinct from the streams of the epochs' orders

}  // namespace

RatingGrid::RatingGrid(Index side, Index users, Range rows, bool local)
    : side_(side), rows_(rows), local_(local), sizes_(static_cast<std::size_t>(side * side)) {
  const CyclicDistribution rows_of{.things = users, .parts = side};
  Index first = 0;
  for (Index row = rows.first; row < rows.last; ++row) {
    first_user_.push_back(first);
    first += rows_of.size(row);
  }
}

Index RatingGrid::side(Index users, Index items, std::int64_t ratings) {
  const auto most = static_cast<Index>(std::sqrt(static_cast<double>(ratings) / kRatingsOfBlock));
  const Index wanted = std::max<Index>(16, std::max(users, items) / kLinesOfBlock);
  return std::clamp<Index>(std::min(wanted, most), 1, kMostBlocks);
}

void RatingGrid::place(std::int64_t base) {
  first_.assign(1, base);
  for (Index row = rows_.first; row < rows_.last; ++row) {
    for (Index column = 0; column < side_; ++column) first_.push_back(first_.back() + block_size(row, column));
  }
  next_.assign(first_.begin(), first_.end() - 1);
}

void RatingGrid::put(const SparseEntry& entry, Range rows, SparseEntry* entries) {
  const Index row = entry.row % side_, column = entry.column % side_;
  if (row < rows.first || row >= rows.last) return;
  SparseEntry& to = entries[next_[kept_number(row, column)]++];
  to = entry;
  if (!local_) return;
  const Index first = first_user_[static_cast<std::size_t>(row - rows_.first)];
  to.row = static_cast<std::uint32_t>(first + entry.row / side_);
  to.column = static_cast<std::uint32_t>(entry.column / side_);
}

void RatingGrid::shuffle(std::uint64_t seed, Range rows, SparseEntry* entries) const {
  for (Index row = rows.first; row < rows.last; ++row) {
    for (Index column = 0; column < side_; ++column) {
      const Range own = block(row, column);
      unisono::shuffle(std::span(entries + own.first, static_cast<std::size_t>(own.size())),
                       RandomStream(seed, Purpose::order, number(row, column), kBlockStream));
    }
  }
}

std::int64_t RatingGrid::kept() const { return first_.back() - first_.front(); }

std::int64_t RatingGrid::all() const { return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}); }

Range RatingGrid::block(Index row, Index column) const {
  const std::size_t number = kept_number(row, column);
  return {first_[number], first_[number + 1]};
}

}  // namespace unisono::data
