#include "unisono/session/held_vector.hpp"

#include <catch2/catch.hpp>

namespace unisono::session {
namespace {

ParameterLayout two_blocks() {
  ParameterLayout layout;
  layout.add({.name = "bias", .shape = {3}});
  layout.add_rows({{{.name = "vectors", .shape = {10, 5}}, 0}, {{.name = "numbers", .shape = {10}}, 5}}, 16);
  return layout;
}

TEST_CASE("of a whole vector all of every block is held, where the layout says", "[held_vector]") {
  const ParameterLayout layout = two_blocks();
  const HeldVector vector = whole_vector("parameters", layout, {});
  CHECK(vector.common);
  REQUIRE(vector.shards.size() == 3);
  CHECK(vector.shards[2].block == 2);
  CHECK(vector.shards[2].box == whole_box(layout.blocks()[2]));
  CHECK(vector.shards[2].place.offset == 16 + 5);
  CHECK(vector.shards[2].place.strides == std::vector<Index>{16});
}

TEST_CASE("some of the rows held are found by the block's stride, and by the step between them", "[held_vector]") {
  const Shard third{.block = 1,  // rows 2, 5, 8
                    .box = {{.first = 2, .count = 3, .step = 3}, {.first = 0, .count = 5}},
                    .place = {.offset = 100, .counts = {3, 5}, .strides = {16, 1}}};
  const Shard some = rows_of(third, 1, 3);  // rows 5, 8
  CHECK(some.box.front() == AxisRange{.first = 5, .count = 2, .step = 3});
  CHECK(some.place.offset == 100 + 16);
  CHECK(some.place.counts == std::vector<Index>{2, 5});
}

TEST_CASE("writers share the rows that all hold, each row to one of them", "[held_vector]") {
  const ParameterLayout layout = two_blocks();
  const HeldVector vector = whole_vector("parameters", layout, {});
  for (const int writers : {1, 2, 4, 11}) {
    std::vector<Index> next(layout.blocks().size(), 0);
    for (int writer = 0; writer < writers; ++writer) {
      for (const Shard& shard : shards_to_write(vector, writer, writers)) {
        CHECK(shard.box.front().first == next[shard.block]);
        next[shard.block] += shard.box.front().count;
      }
    }
    CHECK(next == std::vector<Index>{3, 10, 10});
  }
  CHECK(shards_to_write(vector, 1, 1).empty());  // one that does not write
}

TEST_CASE("of a divided vector a rank writes all that it holds, but of several copies the first alone",
          "[held_vector]") {
  const ParameterLayout layout = two_blocks();
  const ShardMap map = ShardMap::stages(layout, {0, 1}, 2);  // ranks 0 and 1, and their copies on 2 and 3
  for (const int rank : {0, 1, 2, 3}) {
    const HeldVector vector = divided_vector("parameters", layout, map, rank, {});
    CHECK_FALSE(vector.common);
    CHECK(vector.shards.size() == (rank % 2 == 0 ? 1 : 2));
    CHECK(shards_to_write(vector, rank, 4).size() == (rank < 2 ? vector.shards.size() : 0));
  }
}

TEST_CASE("a rank may lay its shards out in its own way", "[held_vector]") {
  const ParameterLayout layout = two_blocks();
  const ShardMap map = ShardMap::by_rows(layout, 2);
  const HeldVector vector = divided_vector("parameters", layout, map, 1, {}, {7, 100, 105});
  REQUIRE(vector.shards.size() == 3);
  CHECK(vector.shards[1].place.offset == 100);
  CHECK(vector.shards[1].place.strides == std::vector<Index>{16, 1});
}

}  // namespace
}  // namespace unisono::session
