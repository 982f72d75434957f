#include "run/word_vectors.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace unisono::session {
namespace {

models::VectorTable table_of(Index rows) {
  return {.name = "words", .rows = rows, .width = 2, .parts = {{.offset = 0, .stride = 2}}};
}

TEST_CASE("the mean cosine is that over all pairs of rows other than 0", "[word_vectors]") {
  const std::vector<float> right = {1, 0, 0, 2, 0, 0, 3, 0};  // the pairs: 0, 1 and 0
  CHECK(mean_cosine(table_of(4), right) == Approx(1.0 / 3));
  const std::vector<float> opposite = {1, 1, -1, -1};
  CHECK(mean_cosine(table_of(2), opposite) == Approx(-1));
  CHECK(std::isnan(mean_cosine(table_of(1), opposite)));
}

TEST_CASE("the parts of a vector are added up, with their scales", "[word_vectors]") {
  const std::vector<float> values = {1, 0, 0, 1, 0, 1, 1, 0};  // rows (1, 0) + 2 (0, 1) and (0, 1) + 2 (1, 0)
  models::VectorTable table = table_of(2);
  table.parts.push_back({.offset = 4, .stride = 2, .scale = 2});
  CHECK(mean_cosine(table, values) == Approx(4.0 / 5));
}

}  // namespace
}  // namespace unisono::session
