#include "unisono/tensor/shard_map.hpp"

#include <catch2/catch.hpp>
#include <map>
#include <stdexcept>

#include "divisions.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono {
namespace {

using test::divisions_of;
using test::Element;
using test::for_each_held;
using test::mixed_layout;

using Numbers = std::map<std::pair<std::size_t, Index>, int>;  // how often each is held

Numbers held_numbers(const ShardMap& map) {
  Numbers held;
  for (int rank = 0; rank < map.ranks(); ++rank) {
    for_each_held(map, rank, [&](Element element, std::size_t) { ++held[{element.block, element.position}]; });
  }
  return held;
}

TEST_CASE("the common positions of two ranges", "[shards]") {
  using Range = AxisRange;
  CHECK(intersection(Range{0, 10}, Range{4, 10}) == Range{4, 6, 1});
  CHECK_FALSE(intersection(Range{0, 4}, Range{4, 10}));
  // 1 4 7 10 13 and 4 6 8 10 12: 4 and 10, six apart
  CHECK(intersection(Range{1, 5, 3}, Range{4, 5, 2}) == Range{4, 2, 6});
  CHECK(intersection(Range{4, 5, 2}, Range{1, 5, 3}) == Range{4, 2, 6});
  CHECK_FALSE(intersection(Range{0, 5, 2}, Range{1, 5, 2}));
  CHECK_FALSE(intersection(Range{0, 0}, Range{0, 5}));
  CHECK(intersection(Range{0, 3, 4}, Range{8, 1}) == Range{8, 1, 4});
}

TEST_CASE("every number is held once in each copy, however θ is divided", "[shards]") {
  const ParameterLayout layout = mixed_layout();
  Index numbers = 0;
  for (const Block& block : layout.blocks()) numbers += block.size();
  for (const int ranks : {1, 2, 3, 4, 7}) {
    for (const auto& [name, map] : divisions_of(layout, std::min(ranks, 4))) {
      INFO(name << " over " << map.ranks());
      const Numbers held = held_numbers(map);
      CHECK(std::ssize(held) == numbers);
      for (const auto& [element, times] : held) CHECK(times == map.copies());
    }
  }
}

TEST_CASE("offsets and elements of a rank's vector say each other", "[shards]") {
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, map] : divisions_of(mixed_layout(), ranks)) {
      INFO(name << " over " << ranks);
      for (int rank = 0; rank < ranks; ++rank) {
        for_each_held(map, rank, [&, &divided = map](Element element, std::size_t offset) {
          CHECK(test::offset_of(divided, rank, element) == static_cast<Index>(offset));
          const std::vector<Index>& shape = divided.layout().blocks()[element.block].shape;
          Box box(shape.size());
          Index rest = element.position;
          for (std::size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
            box[axis] = {.first = rest % shape[axis], .count = 1};
          const std::vector<int> holders = test::holders(divided, element.block, box);
          CHECK(std::ssize(holders) == divided.copies());
          CHECK(std::find(holders.begin(), holders.end(), rank) != holders.end());
        });
      }
    }
  }
}

TEST_CASE("a rank that holds all has θ's own layout", "[shards]") {
  const ParameterLayout layout = mixed_layout();
  for (const int ranks : {1, 3}) {
    const ShardMap map = test::whole(layout, ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      CHECK(map.local(rank).hash() == layout.hash());
      CHECK(map.local(rank).size() == layout.size());
      CHECK(map.local(rank).parameters() == layout.parameters());
    }
  }
  CHECK(test::by_rows(layout, 1).local(0).hash() == layout.hash());
}

TEST_CASE("a rank's blocks begin at cache lines, and its rows keep their place in a row", "[shards]") {
  const ShardMap map = test::by_rows(mixed_layout(), 2);
  const std::vector<Block>& blocks = map.local(1).blocks();
  REQUIRE(blocks.size() == 7);  // rank 1 has more of what cannot be halved: users 5 … 10, and the block of one number
  for (const Block& block : blocks) {
    INFO(block.name);
    CHECK((block.name == "users.bias" ? block.offset - 5 : block.offset) % kLineFloats == 0);
  }
  // Six rows of 16 floats.
  CHECK(blocks[2].name == "users.factors");
  CHECK(blocks[2].shape == std::vector<Index>{6, 5});
  CHECK(blocks[2].stride == 16);
  CHECK(blocks[3].offset == blocks[2].offset + 5);
  CHECK(test::offset_of(map, 1, {.block = 3, .position = 6}) == blocks[3].offset + 16);
}

TEST_CASE("a rank may hold nothing", "[shards]") {
  const ShardMap map = test::by_weights(mixed_layout(), {1, 0, 2});
  CHECK(map.shards_of(1).empty());
  CHECK(map.local(1).size() == 0);
  CHECK_FALSE(test::element_at(map, 1, 0));
  CHECK_FALSE(test::offset_of(map, 1, {.block = 0, .position = 0}));
}

TEST_CASE("stages are held by their replicas, in the order of a process grid", "[shards]") {
  const ShardMap map = test::stages(mixed_layout(), {0, 3}, 2);
  CHECK(map.ranks() == 4);
  CHECK(map.copies() == 2);
  CHECK(test::holders(map, 0, whole_box(map.layout().blocks()[0])) == std::vector<int>{0, 2});
  CHECK(test::holders(map, 4, whole_box(map.layout().blocks()[4])) == std::vector<int>{1, 3});
}

TEST_CASE("divisions that leave out numbers, or hold them twice, are refused", "[shards]") {
  ParameterLayout layout;
  layout.add({.name = "w", .shape = {4, 3}});
  using Held = std::vector<Shard>;
  const auto rows = [](Index first, Index count) { return Shard{.block = 0, .box = {{first, count}, {0, 3}}}; };
  const auto map_of = [&](int copies, Held first, Held second) { return ShardMap(layout, copies, {first, second}); };
  CHECK_NOTHROW(map_of(1, {rows(0, 1)}, {rows(1, 3)}));
  CHECK_THROWS_AS(map_of(1, {rows(0, 1)}, {rows(2, 2)}), std::logic_error);
  CHECK_THROWS_AS(map_of(1, {rows(0, 2)}, {rows(1, 3)}), std::logic_error);
  CHECK_THROWS_AS(map_of(1, {rows(0, 2)}, {rows(1, 2)}), std::logic_error);  // as many, but not each
  CHECK_THROWS_AS(map_of(1, {rows(0, 5)}, {}), std::logic_error);
  CHECK_THROWS_AS(map_of(1, {Shard{.block = 1, .box = rows(0, 4).box}}, {}), std::logic_error);
  CHECK_THROWS_AS(map_of(1, {Shard{.block = 0, .box = rows(0, 4).box, .copy = 1}}, {}), std::logic_error);
  CHECK_THROWS_AS(map_of(2, {}, {rows(0, 4)}), std::logic_error);  // of the second copy there is none
}

TEST_CASE("some of a shard's rows are found by the block's stride, and by the step between them", "[shards]") {
  const Shard third{.block = 1,  // rows 2, 5, 8
                    .box = {{.first = 2, .count = 3, .step = 3}, {.first = 0, .count = 5}},
                    .place = {.offset = 100, .counts = {3, 5}, .strides = {16, 1}}};
  const Shard some = rows_of(third, 1, 3);  // rows 5, 8
  CHECK(some.box.front() == AxisRange{.first = 5, .count = 2, .step = 3});
  CHECK(some.place.offset == 100 + 16);
  CHECK(some.place.counts == std::vector<Index>{2, 5});
}

TEST_CASE("ranks hold cuts of blocks, and what they hold in common counts once", "[shards]") {
  ParameterLayout whole, first, second;
  whole.add({.name = "w", .shape = {6, 4}, .axes = {1, 0}});  // stored [4][6]
  whole.add({.name = "b", .shape = {5}});
  const auto cut = [](AxisRange a, AxisRange b) { return Cut{.axis = 0, .ranges = {a, b}}; };
  first.add({.name = "w", .shape = {3, 4}, .axes = {1, 0}, .cut = cut({0, 2}, {4, 1})});   // rows 0, 1, 4
  second.add({.name = "w", .shape = {3, 4}, .axes = {1, 0}, .cut = cut({2, 2}, {5, 1})});  // rows 2, 3, 5
  for (ParameterLayout* layout : {&first, &second}) layout->add({.name = "b", .shape = {5}});
  const ShardMap map(whole, 1, divided_shards(whole, {first, second}, 0));

  REQUIRE(map.shards_of(1).size() == 3);
  const Shard& sixth = map.shards_of(1)[1];  // row 5, behind rows 2 and 3
  CHECK(sixth.box.front() == AxisRange{5, 1});
  CHECK(sixth.place.offset == 2);
  CHECK(sixth.place.strides == std::vector<Index>{1, 3});
  CHECK(map.shards_of(0)[2].copy == 0);
  CHECK(map.shards_of(1)[2].copy == Shard::kAgain);
  CHECK(map.local(1).size() == second.size());

  struct NoSquares final : SquaresReducer {
    void sum(std::span<ExactSquares>) override {}
    double sum(double own) override { return own; }
  } squares;
  const MapHolding held(map, 1, squares);
  CHECK_FALSE(held.held_by_all());
  REQUIRE(held.ranges().size() == 2);
  CHECK(held.ranges()[0].counts);
  CHECK_FALSE(held.ranges()[1].counts);
  CHECK(joined(held.ranges()) == std::vector<FloatRange>{{0, 16}});

  ParameterLayout overlapping;
  overlapping.add({.name = "w", .shape = {4, 4}, .axes = {1, 0}, .cut = cut({1, 3}, {5, 1})});
  overlapping.add({.name = "b", .shape = {5}});
  CHECK_THROWS_AS(ShardMap(whole, 1, divided_shards(whole, {first, overlapping}, 0)), std::logic_error);
  CHECK_THROWS_AS(divided_shards(first, {whole, ParameterLayout()}, 0).at(2), std::out_of_range);
}

TEST_CASE("the hash of a division says how θ is divided", "[shards]") {
  const ParameterLayout layout = mixed_layout();
  CHECK(test::by_rows(layout, 3).hash() == test::by_rows(layout, 3).hash());
  CHECK(test::by_rows(layout, 3).hash() != test::by_columns(layout, 3).hash());
  CHECK(test::whole(layout, 2).hash() != test::whole(layout, 3).hash());
}

}  // namespace
}  // namespace unisono
