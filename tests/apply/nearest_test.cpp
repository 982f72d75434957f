#include "vectors/tables.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace unisono::apply {
namespace {

TEST_CASE("cosines are of directions alone", "[nearest]") {
  const std::vector<float> right = {2, 0}, up = {0, 3}, diagonal = {1, 1}, none = {0, 0};
  CHECK(cosine(right, up) == 0);
  CHECK(cosine(right, diagonal) == Approx(std::sqrt(0.5)));
  CHECK(cosine(right, right) == 1);
  CHECK(cosine(right, none) == 0);
}

TEST_CASE("the nearest are others, in the order of their cosines", "[nearest]") {
  const std::vector<float> parameters = {1, 0, /**/ 1, 1, /**/ 0, 5, /**/ 0, 0, /**/ -1, 0, /**/ 2, 2};
  const models::VectorTable table{.name = "words", .rows = 6, .width = 2, .parts = {{0, 2}}};
  const auto found = nearest(table, parameters, {0, 2}, 3);
  REQUIRE(found.size() == 2);
  REQUIRE(found[0].size() == 3);
  CHECK(found[0][0].row == 1);  // as near as row 5, and before it
  CHECK(found[0][1].row == 5);
  CHECK(found[0][2] == Scored{.row = 2, .score = 0});
  CHECK(found[1][0].row == 1);
  CHECK(found[1][2] == Scored{.row = 0, .score = 0});
  CHECK(nearest(table, parameters, {0}, 100)[0].size() == 4);  // neither itself nor the vector of zeros
}

}  // namespace
}  // namespace unisono::apply
