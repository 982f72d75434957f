#pragma once

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "unisono/tensor/holding.hpp"

namespace unisono::test {

/// Blocks of all kinds: in an order of their own, with rows beside each other, and some too small for every rank.
inline ParameterLayout mixed_layout() {
  ParameterLayout layout;
  layout.add({.name = "convolution.weight",
              .shape = {4, 3, 2, 2},
              .axes = {2, 3, 0, 1},
              .fan_in = 12,
              .fan_out = 16,
              .initialiser = Initialiser::he_normal});
  layout.add({.name = "convolution.bias", .shape = {4}, .role = Role::bias, .initialiser = Initialiser::zeros});
  layout.add_rows({{{.name = "users.factors", .shape = {11, 5}, .fan_in = 5, .initialiser = Initialiser::uniform}, 0},
                   {{.name = "users.bias", .shape = {11}, .fan_in = 1, .initialiser = Initialiser::normal}, 5}},
                  16);
  layout.add({.name = "dense.weight",
              .shape = {5, 7},
              .axes = {1, 0},
              .fan_in = 7,
              .fan_out = 5,
              .initialiser = Initialiser::glorot_uniform});
  layout.add({.name = "norm.scale", .shape = {37}, .role = Role::norm, .initialiser = Initialiser::ones});
  layout.add({.name = "one", .shape = {1}, .fan_in = 1, .initialiser = Initialiser::normal});
  return layout;
}

/// Cuts each block along an axis, or along its last one where it has fewer, in proportion to the weights.
inline ShardMap cut_along(ParameterLayout layout, std::size_t axis, const std::vector<Index>& weights) {
  const Index sum = std::accumulate(weights.begin(), weights.end(), Index{0});
  std::vector<std::vector<Shard>> shards(weights.size());
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    Box box = whole_box(layout.blocks()[block]);
    AxisRange& range = box[std::min(axis, box.size() - 1)];
    const Index extent = range.count;
    Index before = 0;
    for (std::size_t rank = 0; rank < weights.size(); ++rank) {
      range.first = share_of(extent, before, sum);
      range.count = share_of(extent, before += weights[rank], sum) - range.first;
      shards[rank].push_back({.block = block, .box = box});
    }
  }
  return {std::move(layout), 1, std::move(shards)};
}

inline std::vector<Index> equal_weights(int ranks) { return std::vector<Index>(static_cast<std::size_t>(ranks), 1); }

/// Whole blocks, consecutive ones on one rank, divided so that the ranks hold about equally much: a block
/// goes to the rank in whose share of all numbers its middle lies.
inline ShardMap by_blocks(ParameterLayout layout, int ranks) {
  Index all = 0, before = 0;
  for (const Block& block : layout.blocks()) all += block.size();
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < layout.blocks().size(); ++i) {
    const Block& block = layout.blocks()[i];
    const Index middle = before + block.size() / 2;
    const Index holder = std::min<Index>(share_of(ranks, middle, std::max<Index>(1, all)), ranks - 1);
    shards[static_cast<std::size_t>(holder)].push_back({.block = i, .box = whole_box(block)});
    before += block.size();
  }
  return {std::move(layout), 1, std::move(shards)};
}

/// Each block's rows (its first axis) in equal parts.
inline ShardMap by_rows(ParameterLayout layout, int ranks) {
  return cut_along(std::move(layout), 0, equal_weights(ranks));
}

/// Each block's columns (its second axis) in equal parts; a block of one axis is divided along that.
inline ShardMap by_columns(ParameterLayout layout, int ranks) {
  return cut_along(std::move(layout), 1, equal_weights(ranks));
}

/// Each block's rows in proportion to the ranks' weights. A rank of weight 0 holds nothing; at least one is positive.
inline ShardMap by_weights(ParameterLayout layout, const std::vector<Index>& weights) {
  return cut_along(std::move(layout), 0, weights);
}

/// Stage s holds the blocks from first_blocks[s] up to, but without, first_blocks[s + 1]; each replica has a copy of θ.
/// Ranks are replicas × stages, as in a process grid. \param first_blocks ascending, from 0 on
inline ShardMap stages(ParameterLayout layout, const std::vector<std::size_t>& first_blocks, int replicas) {
  const int stages = static_cast<int>(first_blocks.size());
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(replicas * stages));
  for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
    const auto behind = std::upper_bound(first_blocks.begin(), first_blocks.end(), block);
    const int stage = static_cast<int>(behind - first_blocks.begin()) - 1;
    for (int replica = 0; replica < replicas; ++replica) {
      const auto holder = static_cast<std::size_t>(replica * stages + stage);
      shards[holder].push_back({.block = block, .box = whole_box(layout.blocks()[block]), .copy = replica});
    }
  }
  return {std::move(layout), replicas, std::move(shards)};
}

/// Every rank holds all of θ.
inline ShardMap whole(ParameterLayout layout, int ranks) { return stages(std::move(layout), {0}, ranks); }

/// Rows are dealt round to the ranks, as cards are.
inline ShardMap dealt_rows(const ParameterLayout& layout, int ranks) {
  std::vector<std::vector<Shard>> shards(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t block = 0; block < layout.blocks().size(); ++block) {
      Box box = whole_box(layout.blocks()[block]);
      const Index count = (box.front().count - rank + ranks - 1) / ranks;
      box.front() = {.first = rank, .count = std::max<Index>(0, count), .step = ranks};
      shards[static_cast<std::size_t>(rank)].push_back({.block = block, .box = box});
    }
  }
  return {layout, 1, shards};
}

/// Of ranks that sum nothing, or of one rank.
class LocalSquares final : public SquaresReducer {
 public:
  void sum(std::span<ExactSquares>) override {}
  double sum(double sum) override { return sum; }
};

using Division = std::pair<std::string, ShardMap>;

/// A layout divided in all ways that these ranks know.
inline std::vector<Division> divisions_of(const ParameterLayout& layout, int ranks) {
  std::vector<Index> weights = {3, 0, 1, 2};
  weights.resize(static_cast<std::size_t>(ranks));
  const std::vector<std::size_t> halves = {0, 3};
  const std::vector<std::size_t> thirds = {0, 2, 5};
  std::vector<Division> all;
  all.emplace_back("whole", whole(layout, ranks));
  all.emplace_back("by blocks", by_blocks(layout, ranks));
  all.emplace_back("by rows", by_rows(layout, ranks));
  all.emplace_back("by columns", by_columns(layout, ranks));
  if (ranks % 2 == 0) all.emplace_back("2 stages × copies", stages(layout, halves, ranks / 2));
  if (ranks % 3 == 0) all.emplace_back("3 stages × copies", stages(layout, thirds, ranks / 3));
  all.emplace_back("unevenly", by_weights(layout, weights));
  all.emplace_back("dealt", dealt_rows(layout, ranks));
  return all;
}

/// The positions that are in both; empty where there are none.
inline std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both;
  for (std::size_t axis = 0; axis < a.size(); ++axis) {
    const auto range = intersection(a[axis], b[axis]);
    if (!range) return {};
    both.push_back(*range);
  }
  return both;
}

/// Identifies a number of θ, whatever way θ is sharded.
struct Element {
  std::size_t block = 0;  ///< its number in the layout
  Index position = 0;     ///< in the block's canonical order
  bool operator==(const Element&) const = default;
};

/// The number at an offset (in floats) of a rank's vector; empty for padding.
inline std::optional<Element> element_at(const ShardMap& map, int rank, Index offset) {
  const std::vector<Block>& blocks = map.local(rank).blocks();
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Shard& shard = map.shards_of(rank)[i];
    const std::vector<Index> strides = stored_strides(blocks[i]);
    std::vector<std::size_t> axes(strides.size());
    std::iota(axes.begin(), axes.end(), std::size_t{0});
    // An axis of length 1 may have the same stride as a longer one: it comes after that.
    std::stable_sort(axes.begin(), axes.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(strides[a], blocks[i].shape[a]) > std::pair(strides[b], blocks[i].shape[b]);
    });
    Index rest = offset - blocks[i].offset;
    bool inside = rest >= 0;
    std::vector<Index> at(axes.size(), 0);
    for (const std::size_t axis : axes) {
      if (!inside) break;
      at[axis] = blocks[i].shape[axis] == 1 ? 0 : rest / strides[axis];
      rest -= at[axis] * strides[axis];
      inside = at[axis] < blocks[i].shape[axis];
    }
    if (!inside || rest != 0) continue;
    Element element{.block = shard.block, .position = 0};
    for (std::size_t axis = 0; axis < at.size(); ++axis) {
      element.position = element.position * map.layout().blocks()[shard.block].shape[axis] + shard.box[axis].first +
                         at[axis] * shard.box[axis].step;
    }
    return element;
  }
  return {};
}

/// The offset (in floats) of a number in a rank's vector; empty where the rank does not hold it.
inline std::optional<Index> offset_of(const ShardMap& map, int rank, Element element) {
  const std::vector<Index>& shape = map.layout().blocks().at(element.block).shape;
  Box one(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    one[axis] = {.first = element.position % shape[axis], .count = 1};
    element.position /= shape[axis];
  }
  for (std::size_t i = 0; i < map.shards_of(rank).size(); ++i) {
    const Shard& shard = map.shards_of(rank)[i];
    if (shard.block == element.block && intersection(shard.box, one)) return locate(shard, one).offset;
  }
  return {};
}

/// The ranks that hold at least one number of a part of a block, ascending.
inline std::vector<int> holders(const ShardMap& map, std::size_t block, const Box& box) {
  std::vector<int> ranks_that_hold;
  for (int rank = 0; rank < map.ranks(); ++rank) {
    const std::vector<Shard>& shards = map.shards_of(rank);
    const bool holds = std::any_of(shards.begin(), shards.end(), [&](const Shard& shard) {
      return shard.block == block && intersection(shard.box, box).has_value();
    });
    if (holds) ranks_that_hold.push_back(rank);
  }
  return ranks_that_hold;
}

/// Calls see(element, offset in the rank's vector) for each number that a rank holds.
template <typename See>
void for_each_held(const ShardMap& map, int rank, See see) {
  for (Index offset = 0; offset < map.local(rank).size(); ++offset) {
    if (const auto element = element_at(map, rank, offset)) see(*element, static_cast<std::size_t>(offset));
  }
}

}  // namespace unisono::test
