#include "checkpoint/held_rows.hpp"

#include <catch2/catch.hpp>

namespace unisono::experiment {
namespace {

ParameterLayout two_blocks() {
  ParameterLayout layout;
  layout.add({.name = "bias", .shape = {3}});
  layout.add_rows({{{.name = "vectors", .shape = {10, 5}}, 0}, {{.name = "numbers", .shape = {10}}, 5}}, 16);
  return layout;
}

TEST_CASE("of a whole vector all rows of every block are held, where the layout says", "[held_rows]") {
  const ParameterLayout layout = two_blocks();
  const HeldVector vector = whole_vector("parameters", layout, {});
  CHECK(vector.common);
  REQUIRE(vector.rows.size() == 3);
  CHECK(vector.rows[2].block == 2);
  CHECK(vector.rows[2].count == 10);
  CHECK(vector.rows[2].offset == 16 + 5);
}

TEST_CASE("some of the rows held are found by the block's stride, and by the step between them", "[held_rows]") {
  const ParameterLayout layout = two_blocks();
  const strategies::HeldRows third{.block = 1, .first = 2, .step = 3, .count = 3, .offset = 100};  // rows 2, 5, 8
  const strategies::HeldRows some = some_of(third, layout.blocks()[1], {1, 3});                    // rows 5, 8
  CHECK(some.first == 5);
  CHECK(some.step == 3);
  CHECK(some.count == 2);
  CHECK(some.offset == 100 + 16);
}

TEST_CASE("writers share the rows that all hold, each row to one of them", "[held_rows]") {
  const ParameterLayout layout = two_blocks();
  const HeldVector vector = whole_vector("parameters", layout, {});
  for (const int writers : {1, 2, 4, 11}) {
    std::vector<Index> next(layout.blocks().size(), 0);
    for (int writer = 0; writer < writers; ++writer) {
      for (const strategies::HeldRows& rows : rows_to_write(vector, writer, writers)) {
        CHECK(rows.first == next[rows.block]);
        next[rows.block] += rows.count;
      }
    }
    CHECK(next == std::vector<Index>{3, 10, 10});
  }
  CHECK(rows_to_write(vector, 1, 1).empty());  // one that does not write
}

TEST_CASE("rows that no other rank holds are all written by the one that has them", "[held_rows]") {
  const ParameterLayout layout = two_blocks();
  HeldVector vector = whole_vector("parameters", layout, {});
  vector.common = false;
  vector.rows = {{.block = 1, .first = 1, .step = 2, .count = 5, .offset = 0}};
  const auto written = rows_to_write(vector, 1, 2);
  REQUIRE(written.size() == 1);
  CHECK(written[0].first == 1);
  CHECK(written[0].count == 5);
}

}  // namespace
}  // namespace unisono::experiment
