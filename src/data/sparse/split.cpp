#include "sparse/split.hpp"

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

double mean_rating(const LoadedSplit& split) {
  const auto entries = std::get<SparseEntries>(split.set);
  double sum = 0;
  for (const ExampleRange& chunk : split.chunks) {
    for (std::int64_t i = chunk.first; i < chunk.last; ++i) {
      sum += static_cast<double>(entries[static_cast<std::size_t>(i)].value);
    }
  }
  return sum / static_cast<double>(split.examples);
}

std::vector<std::int64_t> count_ratings(const LoadedSplit& split, Index users, Index items) {
  const auto entries = std::get<SparseEntries>(split.set);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(users + items));
  for (const ExampleRange& chunk : split.chunks) {
    for (std::int64_t i = chunk.first; i < chunk.last; ++i) {
      const SparseEntry& entry = entries[static_cast<std::size_t>(i)];
      ++counts[entry.row];
      ++counts[static_cast<std::size_t>(users) + entry.column];
    }
  }
  return counts;
}

std::vector<std::int64_t> count_features(const LoadedSplit& split, Index columns) {
  const SparseRows& rows = std::get<LabelledRows>(split.set).rows;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(columns));
  for (const ExampleRange& chunk : split.chunks) {
    const auto first = rows.offsets[static_cast<std::size_t>(chunk.first)];
    const auto last = rows.offsets[static_cast<std::size_t>(chunk.last)];
    for (std::uint64_t i = first; i < last; ++i) ++counts[rows.columns[i]];
  }
  return counts;
}

std::vector<std::int64_t> count_labels(const LoadedSplit& split, Index classes) {
  const View targets = std::get<LabelledRows>(split.set).targets;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const ExampleRange& chunk : split.chunks) {
    for (std::int64_t row = chunk.first; row < chunk.last; ++row) {
      ++counts[static_cast<std::size_t>(targets[static_cast<std::size_t>(row)])];
    }
  }
  return counts;
}

std::int64_t count_values(const LoadedSplit& split) {
  const auto offsets = std::get<LabelledRows>(split.set).rows.offsets;
  std::uint64_t values = 0;
  for (const ExampleRange& chunk : split.chunks) {
    values += offsets[static_cast<std::size_t>(chunk.last)] - offsets[static_cast<std::size_t>(chunk.first)];
  }
  return static_cast<std::int64_t>(values);
}

std::int64_t held_out_examples(std::int64_t n, double fraction) {
  if (fraction == 0 || n < 2) return 0;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(static_cast<double>(n) * fraction + 0.5), 1, n - 1);
}

Arrangement arrangement_of(const DataSettings& settings, std::uint64_t seed, Split split, Index grid,
                           const NodeShare& share) {
  const bool own = settings.partition == Partition::strata, shuffle = settings.shuffle && split == Split::train;
  return {.shuffle = shuffle,
          .seed = settings.arrangement_seed < 0 ? seed : static_cast<std::uint64_t>(settings.arrangement_seed),
          .validation_fraction = split == Split::train ? settings.validation_fraction : 0,
          .split_seed = static_cast<std::uint64_t>(settings.split_seed),
          .stratify = settings.stratify,
          .grid = own || shuffle ? grid : 0,
          .rank = share.rank,
          .ranks = own ? share.size : 0};
}

std::int64_t rows_at_once(std::int64_t rows) {
  constexpr std::int64_t kLargestChunk = 256, kChunks = 256;
  return std::clamp<std::int64_t>(rows / kChunks, 1, kLargestChunk);
}

void cut_evenly(ExampleRange units, std::int64_t at_once, LoadedSplit& split) {
  for (std::int64_t first = units.first; first < units.last; first += at_once) {
    const ExampleRange chunk{first, std::min(first + at_once, units.last)};
    split.chunks.push_back(chunk);
    split.chunk_examples.push_back(chunk.size());
  }
  split.examples += units.size();
}

}  // namespace unisono::data
