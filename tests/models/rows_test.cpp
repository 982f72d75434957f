#include "in_place_model.hpp"

#include <catch2/catch.hpp>

#include "unisono/base/errors.hpp"

namespace unisono::models {

TEST_CASE("rows are filled up to whole cache lines", "[rows]") {
  CHECK(round_up_to_line(1) == 16);
  CHECK(round_up_to_line(16) == 16);
  CHECK(round_up_to_line(17) == 32);
}

TEST_CASE("a row's initial values depend on seed, block and row alone", "[rows]") {
  const auto draw = [](std::uint64_t seed, std::uint32_t number, Index rows, Index width, Index stride) {
    Buffer values(rows * stride);
    draw_rows(seed, number, 0.25F, {.count = rows}, width,
              {.values = values.data(), .stride = stride, .width = stride});
    std::vector<std::vector<float>> drawn;
    for (Index row = 0; row < rows; ++row) {
      drawn.emplace_back(values.data() + row * stride, values.data() + row * stride + width);
      for (Index i = width; i < stride; ++i) CHECK(values.data()[row * stride + i] == 0);
    }
    return drawn;
  };
  const auto few = draw(1, 0, 3, 5, 16), many = draw(1, 0, 8, 5, 32), wide = draw(1, 0, 3, 9, 16);
  CHECK(std::equal(few.begin(), few.end(), many.begin()));
  for (std::size_t row = 0; row < 3; ++row) CHECK(std::equal(few[row].begin(), few[row].end(), wide[row].begin()));
  CHECK(few[0] != few[1]);
  CHECK(draw(1, 1, 3, 5, 16)[0] != few[0]);
  CHECK(draw(2, 0, 3, 5, 16)[0] != few[0]);
  for (const auto& row : many) {
    for (const float value : row) CHECK(std::abs(value) <= 0.25F);
  }
}

TEST_CASE("a column is filled, and nothing beside it", "[rows]") {
  Buffer values(2 * 16);
  fill_column(3, 2, 5, {.values = values.data(), .stride = 16, .width = 16});
  for (Index i = 0; i < 32; ++i) CHECK(values.data()[i] == (i % 16 == 5 ? 3 : 0));
}

TEST_CASE("a block of rows, or of a number each", "[rows]") {
  CHECK(row_block("a", 4, 3, Role::weight).shape == std::vector<Index>{4, 3});
  CHECK(row_block("a", 4, 0, Role::bias).shape == std::vector<Index>{4});
  CHECK(row_block("a", 4, 0, Role::state).role == Role::state);
}

TEST_CASE("an update rule is one of a model's", "[rows]") {
  CHECK_NOTHROW(require_rule("sgd", {"sgd", "adagrad"}, "factorization"));
  CHECK_THROWS_WITH(require_rule("adam", {"sgd", "adagrad"}, "factorization"),
                    "optimizer.kind = \"adam\": model.kind = \"factorization\" is updated in place, which supports "
                    "only sgd or adagrad");
}

TEST_CASE("a kernel's sums are added, a value an example", "[rows]") {
  kernels::LossSums sums{.loss = 1, .examples = 2};
  add({.loss = 0.5, .examples = 3, .correct = 2, .squared_error = 4, .absolute_error = 5}, sums);
  CHECK(sums.loss == 1.5);
  CHECK(sums.examples == 5);
  CHECK(sums.correct == 2);
  CHECK(sums.squared_error == 4);
  CHECK(sums.absolute_error == 5);
  CHECK(sums.values == 3);
}

}  // namespace unisono::models
