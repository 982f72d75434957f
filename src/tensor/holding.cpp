#include "unisono/tensor/holding.hpp"

namespace unisono {
namespace {

/// \param block_of(i): the number, in the whole vector, of block i of a rank's layout
template <typename BlockOf>
std::vector<BlockRange> ranges_of(const ParameterLayout& local, BlockOf block_of) {
  const std::vector<Block>& blocks = local.blocks();
  std::vector<BlockRange> ranges;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Index next = i + 1 < blocks.size() ? blocks[i + 1].offset : local.size();
    ranges.push_back({{blocks[i].offset, next}, block_of(i)});
  }
  return ranges;
}

bool all_hold_all(const ShardMap& map) {
  for (int rank = 0; rank < map.ranks(); ++rank) {
    if (map.local(rank).parameters() < map.layout().parameters()) return false;
  }
  return true;
}

}  // namespace

std::vector<FloatRange> joined(const std::vector<BlockRange>& ranges) {
  std::vector<FloatRange> all;
  for (const BlockRange& range : ranges) {
    if (!all.empty() && all.back().last == range.floats.first) {
      all.back().last = range.floats.last;
    } else {
      all.push_back(range.floats);
    }
  }
  return all;
}

std::vector<BlockRange> WholeHolding::ranges() const {
  return ranges_of(layout_, [](std::size_t i) { return i; });
}

MapHolding::MapHolding(const ShardMap& map, int rank, SquaresReducer& squares)
    : map_(map), rank_(rank), squares_(squares), held_by_all_(all_hold_all(map)) {}

std::vector<BlockRange> MapHolding::ranges() const {
  return ranges_of(map_.local(rank_), [this](std::size_t i) { return map_.shards_of(rank_)[i].block; });
}

}  // namespace unisono
