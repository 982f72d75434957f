#include <algorithm>
#include <numeric>

#include "unisono/tensor/shard_map.hpp"
#include "unisono/tensor/share.hpp"

namespace unisono {
namespace {

/// Cuts each block along an axis, or along its last one where it has fewer, in proportion to the weights.
ShardMap cut_along(ParameterLayout layout, std::size_t axis, const std::vector<Index>& weights) {
  const Index sum = std::accumulate(weights.begin(), weights.end(), Index{0});
  std::vector<Shard> shards;
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    Box box = whole_box(layout.blocks()[block]);
    AxisRange& range = box[std::min(axis, box.size() - 1)];
    const Index extent = range.count;
    Index before = 0;
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      range.first = share_of(extent, before, sum);
      range.count = share_of(extent, before += weights[rank], sum) - range.first;
      shards.push_back({.block = block, .box = box, .holder = static_cast<int>(rank)});
    }
  }
  const int ranks = static_cast<int>(weights.size());
  return {std::move(layout), ranks, 1, std::move(shards)};
}

std::vector<Index> equal_weights(int ranks) { return std::vector<Index>(static_cast<std::size_t>(ranks), 1); }

}  // namespace

ShardMap ShardMap::whole(ParameterLayout layout, int ranks) { return stages(std::move(layout), {0}, ranks); }

/// A block goes to the rank in whose share of all numbers its middle lies.
ShardMap ShardMap::by_blocks(ParameterLayout layout, int ranks) {
  Index all = 0, before = 0;
  for (const Block& block : layout.blocks()) all += block.size();
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    const Index middle = before + block.size() / 2;
    const auto holder = static_cast<int>(std::min<Index>(share_of(ranks, middle, std::max<Index>(1, all)), ranks - 1));
    shards.push_back({.block = i, .box = whole_box(block), .holder = holder});
    before += block.size();
  }
  return {std::move(layout), ranks, 1, std::move(shards)};
}

ShardMap ShardMap::by_rows(ParameterLayout layout, int ranks) {
  return cut_along(std::move(layout), 0, equal_weights(ranks));
}

ShardMap ShardMap::by_columns(ParameterLayout layout, int ranks) {
  return cut_along(std::move(layout), 1, equal_weights(ranks));
}

ShardMap ShardMap::by_weights(ParameterLayout layout, const std::vector<Index>& weights) {
  return cut_along(std::move(layout), 0, weights);
}

ShardMap ShardMap::stages(ParameterLayout layout, const std::vector<std::size_t>& first_blocks, int replicas) {
  const int stages = static_cast<int>(first_blocks.size());
  std::vector<Shard> shards;
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    const auto behind = std::upper_bound(first_blocks.begin(), first_blocks.end(), block);
    const int stage = static_cast<int>(behind - first_blocks.begin()) - 1;
    for (int replica = 0; replica < replicas; ++replica) {
      shards.push_back({.block = block,
                        .box = whole_box(layout.blocks()[block]),
                        .holder = replica * stages + stage,
                        .copy = replica});
    }
  }
  return {std::move(layout), replicas * stages, replicas, std::move(shards)};
}

}  // namespace unisono
