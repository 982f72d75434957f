#include "unisono/tensor/holding.hpp"

#include <catch2/catch.hpp>

#include "divisions.hpp"

namespace unisono {
namespace {

ParameterLayout three_blocks() {
  ParameterLayout layout;
  layout.add({.name = "bias", .shape = {3}});
  layout.add_rows({{{.name = "vectors", .shape = {10, 5}}, 0}, {{.name = "numbers", .shape = {10}}, 5}}, 16);
  return layout;
}

TEST_CASE("who holds all has all of every block, where the layout says", "[holding]") {
  const ParameterLayout layout = three_blocks();
  const WholeHolding holding(layout);
  CHECK(holding.held_by_all());
  CHECK(holding.squares() == nullptr);
  CHECK(holding.size() == layout.size());
  const std::vector<Shard> shards = holding.shards();
  REQUIRE(shards.size() == 3);
  CHECK(shards[2].block == 2);
  CHECK(shards[2].box == whole_box(layout.blocks()[2]));
  CHECK(shards[2].place.offset == 16 + 5);
  CHECK(shards[2].place.strides == std::vector<Index>{16});
  CHECK(joined(holding.ranges()) == std::vector<FloatRange>{{0, layout.size()}});
}

TEST_CASE("a map says what a rank holds, and ranks that divide a copy add up", "[holding]") {
  const ParameterLayout layout = test::mixed_layout();
  test::LocalSquares squares;
  const auto divides = [&](const ShardMap& map, int rank) {
    const MapHolding holding(map, rank, squares);
    CHECK(holding.held_by_all() == (holding.squares() == nullptr));
    CHECK(holding.size() == map.local(rank).size());
    return holding.squares() != nullptr;
  };
  CHECK_FALSE(divides(test::whole(layout, 3), 1));
  CHECK_FALSE(divides(test::by_rows(layout, 1), 0));
  CHECK(divides(test::by_rows(layout, 2), 0));
  CHECK(divides(test::by_weights(layout, {1, 0}), 0));  // the other has nothing of it
  CHECK(divides(test::by_weights(layout, {1, 0}), 1));
  const ShardMap stages = test::stages(layout, {0, 3}, 2);
  const MapHolding second(stages, 1, squares);
  CHECK(second.shards().front().block == 3);
  CHECK(second.ranges().front().block == 3);
  CHECK(second.shards().front().copy == 0);
  CHECK(MapHolding(stages, 3, squares).shards().front().copy == 1);
}

TEST_CASE("ranges that touch are joined", "[holding]") {
  CHECK(joined({}).empty());
  CHECK(joined({{{0, 16}, 0}, {{16, 48}, 1}, {{64, 80}, 4}}) == std::vector<FloatRange>{{0, 48}, {64, 80}});
}

}  // namespace
}  // namespace unisono
