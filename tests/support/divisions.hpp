#pragma once

#include <algorithm>
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
  all.emplace_back("whole", ShardMap::whole(layout, ranks));
  all.emplace_back("by blocks", ShardMap::by_blocks(layout, ranks));
  all.emplace_back("by rows", ShardMap::by_rows(layout, ranks));
  all.emplace_back("by columns", ShardMap::by_columns(layout, ranks));
  if (ranks % 2 == 0) all.emplace_back("2 stages × copies", ShardMap::stages(layout, halves, ranks / 2));
  if (ranks % 3 == 0) all.emplace_back("3 stages × copies", ShardMap::stages(layout, thirds, ranks / 3));
  all.emplace_back("unevenly", ShardMap::by_weights(layout, weights));
  all.emplace_back("dealt", dealt_rows(layout, ranks));
  return all;
}

/// Calls see(element, offset in the rank's vector) for each number that a rank holds.
template <typename See>
void for_each_held(const ShardMap& map, int rank, See see) {
  for (Index offset = 0; offset < map.local(rank).size(); ++offset) {
    if (const auto element = map.element_at(rank, offset)) see(*element, static_cast<std::size_t>(offset));
  }
}

}  // namespace unisono::test
