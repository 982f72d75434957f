#include "vectors/tables.hpp"

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("a row is the sum of its parts", "[tables]") {
  // Two rows of two numbers each, the parts' rows three floats apart, the second part behind the first.
  const std::vector<float> parameters = {1, 2, -9, 3, 4, -9, 10, 20, -9, 30, 40, -9};
  const models::VectorTable one{.name = "words", .rows = 2, .width = 2, .parts = {{0, 3}}};
  const models::VectorTable sum{.name = "words", .rows = 2, .width = 2, .parts = {{0, 3}, {6, 3}}};
  std::vector<float> vector = {-1, -1};
  read_row(one, parameters, 1, vector);
  CHECK(vector == std::vector<float>{3, 4});
  read_row(sum, parameters, 0, vector);
  CHECK(vector == std::vector<float>{11, 22});
  read_row(sum, parameters, 1, vector);
  CHECK(vector == std::vector<float>{33, 44});
}

TEST_CASE("a name is found, or the nearest one said", "[tables]") {
  const data::NameTable names{.table = "words", .names = {"king", "queen", "paris"}};
  CHECK(row_of(names, "queen", "run") == 1);
  CHECK_THROWS_AS(row_of(names, "quen", "run"), DataError);
  CHECK_THROWS_WITH(row_of(names, "quen", "run"),
                    Contains("'quen' is not among the 3 words of run; did you mean 'queen'?"));
  CHECK_THROWS_WITH(row_of(names, "zzzzzz", "run"), Contains("choose another one"));
}

}  // namespace
}  // namespace unisono::apply
