#include "unisono/session/stored_checkpoint.hpp"

#include <catch2/catch.hpp>

#include "sample_checkpoint.hpp"

namespace unisono::session {
namespace {

using testing::divided_vector;
using testing::whole_vector;

ParameterLayout two_blocks() {
  ParameterLayout layout;
  layout.add({.name = "bias", .shape = {3}});
  layout.add_rows({{{.name = "vectors", .shape = {10, 5}}, 0}, {{.name = "numbers", .shape = {10}}, 5}}, 16);
  return layout;
}

TEST_CASE("writers share the rows that all hold, each row to one of them", "[stored_vector]") {
  const ParameterLayout layout = two_blocks();
  const StoredVector vector = whole_vector("parameters", layout, {});
  CHECK_FALSE(vector.is_divided());
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
          "[stored_vector]") {
  const ShardMap map = test::stages(two_blocks(), {0, 1}, 2);  // ranks 0 and 1, and their copies on 2 and 3
  for (const int rank : {0, 1, 2, 3}) {
    const StoredVector vector = divided_vector("parameters", map, rank, {});
    CHECK(vector.is_divided());
    const std::size_t held = rank % 2 == 0 ? 1 : 2;
    CHECK(shards_to_write(vector, rank, 4).size() == (rank < 2 ? held : 0));
  }
}

TEST_CASE("where replicas have values of their own, each writes all of its own, and nothing of others",
          "[stored_vector]") {
  const ParameterLayout layout = two_blocks();
  StoredVector vector = whole_vector("optimizer/1/velocity", layout, {});
  vector.of = ValuesOf::this_replica;
  CHECK(vector.is_divided());
  CHECK(shards_to_write(vector, 1, 2).size() == 3);
  CHECK(shards_to_write(vector, 1, 2)[2].box == whole_box(layout.blocks()[2]));
  vector.of = ValuesOf::another_replica;
  CHECK(vector.is_divided());
  CHECK(shards_to_write(vector, 0, 2).empty());
}

}  // namespace
}  // namespace unisono::session
