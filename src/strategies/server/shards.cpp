#include "server/shards.hpp"

#include <algorithm>
#include <cstdlib>

#include "unisono/parallel/slice_holding.hpp"

namespace unisono::strategies {
namespace {

/// Moves each border between equal parts to where `nearest` allows a cut.
template <typename Nearest>
std::vector<comm::Slice> cut(Index floats, int shards, Nearest nearest) {
  std::vector<comm::Slice> parts;
  Index first = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const Index last =
        shard + 1 == shards ? floats : std::max(first, nearest(comm::slice_of(floats, shard, shards).last));
    parts.push_back({first, last});
    first = last;
  }
  return parts;
}

Index nearest_line(Index border) { return (border + kLineFloats / 2) / kLineFloats * kLineFloats; }

}  // namespace

std::vector<comm::Slice> cut_into_shards(const ParameterLayout& layout, int shards, Cut where) {
  std::vector<Index> borders = {0, layout.size()};
  for (const Block& block : layout.blocks()) borders.push_back(block.offset);
  return cut(layout.size(), shards, [&](Index border) {
    if (where == Cut::lines) return std::min(nearest_line(border), layout.size());
    return *std::min_element(borders.begin(), borders.end(),
                             [&](Index a, Index b) { return std::abs(a - border) < std::abs(b - border); });
  });
}

std::vector<comm::Slice> cut_between_rows(Index floats, const std::vector<models::RowSpace>& spaces, int shards) {
  return cut(floats, shards, [&](Index border) {
    for (const models::RowSpace& space : spaces) {
      const Index inside = border - space.offset;
      if (inside <= 0 || inside >= space.rows * space.stride) continue;
      return space.offset + (inside + space.stride / 2) / space.stride * space.stride;
    }
    return std::min(nearest_line(border), floats);
  });
}

std::unique_ptr<const Holding> served_holding(const ParameterLayout& layout, comm::Slice shard) {
  return std::make_unique<parallel::SliceHolding>(std::make_shared<WholeHolding>(layout),
                                                  std::vector<FloatRange>{{shard.first, shard.last}},
                                                  parallel::SliceHolding::Place::packed, /*squares=*/nullptr);
}

ShardRows::ShardRows(Index floats, const std::vector<models::RowSpace>& spaces, comm::Slice shard) {
  std::vector<std::size_t> numbers(spaces.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = i;
  std::sort(numbers.begin(), numbers.end(), [&](auto a, auto b) { return spaces[a].offset < spaces[b].offset; });
  Index at = 0;
  const auto rest_until = [&](Index end) {
    const comm::Slice segment{std::max(at, shard.first), std::min(end, shard.last)};
    if (segment.first < segment.last) rest_.push_back(segment);
  };
  for (const std::size_t number : numbers) {
    const models::RowSpace& space = spaces[number];
    rest_until(space.offset);
    at = space.offset + space.rows * space.stride;
    const Index first = std::clamp<Index>((shard.first - space.offset) / space.stride, 0, space.rows);
    const Index last = std::clamp<Index>((shard.last - space.offset) / space.stride, 0, space.rows);
    if (first >= last) continue;
    parts_.push_back({number, first, last - first, count_, space.offset + first * space.stride, space.stride});
    count_ += last - first;
  }
  rest_until(floats);
}

void ShardRows::take_touched(models::TouchedRows& touched, std::vector<std::uint32_t>& rows) const {
  for (const RowSegment& part : parts_) {
    for (Index row = 0; row < part.rows; ++row) {
      if (!touched.is_touched(part.space, part.first + row)) continue;
      touched.forget(part.space, part.first + row);
      rows.push_back(static_cast<std::uint32_t>(part.number + row));
    }
  }
}

Index ShardRows::floats_of(std::span<const std::uint32_t> rows) const {
  Index floats = 0;
  for_each(rows, [&](Index, Index count) { floats += count; });
  return floats;
}

}  // namespace unisono::strategies
