#include "sparse/split.hpp"

#include <algorithm>

namespace unisono::data {

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
