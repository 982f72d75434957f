#include "vectors/word_scores.hpp"

#include <catch2/catch.hpp>
#include <limits>
#include <numeric>

#include "unisono/base/random.hpp"

namespace unisono::apply {
namespace {

UnitVectors rows_of(const std::vector<float>& values, Index width) {
  const models::VectorTable table{
      .name = "words", .rows = static_cast<Index>(values.size()) / width, .width = width, .parts = {{0, width}}};
  std::vector<std::int32_t> all(static_cast<std::size_t>(table.rows));
  std::iota(all.begin(), all.end(), 0);
  return unit_rows(table, values, all);
}

/// 3CosAdd word by word.
std::int32_t by_definition(const UnitVectors& words, const Analogy& question) {
  double best = -std::numeric_limits<double>::infinity();
  std::int32_t found = -1;
  for (std::int32_t w = 0; w < words.count; ++w) {
    if (std::count(question.given.begin(), question.given.end(), w) > 0) continue;
    double score = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(words.width); ++k) {
      const auto [a, b, c] = question.given;
      score += static_cast<double>(words.row(w)[k]) *
               static_cast<double>(words.row(b)[k] - words.row(a)[k] + words.row(c)[k]);
    }
    if (score > best) {
      best = score;
      found = w;
    }
  }
  return found;
}

TEST_CASE("rows have length 1, in the order asked for; zeros stay zeros", "[analogies]") {
  const std::vector<float> values = {3, 4, /**/ 0, 0, /**/ 0, -2};
  const models::VectorTable table{.name = "words", .rows = 3, .width = 2, .parts = {{0, 2}}};
  const std::vector<std::int32_t> order = {2, 0, 1};
  const UnitVectors rows = unit_rows(table, values, order);
  CHECK(rows.count == 3);
  CHECK(rows.values == std::vector<float>{0, -1, 0.6F, 0.8F, 0, 0});
}

TEST_CASE("man is to king as woman is to queen, none of the three being an answer", "[analogies]") {
  // man, woman, king, queen, apple: sex along the first axis, rank along the second
  const UnitVectors words = rows_of({1, 0, 0, -1, 0, 0, 1, 1, 0, -1, 1, 0, 0, 0, 1}, 3);
  const std::vector<Analogy> questions = {{.given = {0, 2, 1}, .expected = 3}, {.given = {2, 3, 0}, .expected = 1}};
  CHECK(solve_analogies(words, questions) == std::vector<std::int32_t>{3, 1});
  CHECK(solve_analogies(words, {}).empty());
  // Only three words: nothing is left.
  CHECK(solve_analogies(rows_of({1, 0, 0, 1, 1, 1}, 2), std::vector<Analogy>{{.given = {0, 1, 2}}}).front() == -1);
}

TEST_CASE("blocks of words and shares of questions change nothing", "[analogies]") {
  RandomStream random(7, Purpose::words, 0);
  const Index count = 1100, width = 19;  // two whole blocks and a part of one, whose last tile is not full
  std::vector<float> values;
  for (Index i = 0; i < count * width; ++i) values.push_back(random.uniform(-1, 1));
  const UnitVectors words = rows_of(values, width);
  std::vector<Analogy> questions;
  for (int q = 0; q < 40; ++q) {
    const auto word = [&] { return static_cast<std::int32_t>(random.bits() % static_cast<std::uint32_t>(count)); };
    questions.push_back({.given = {word(), word(), word()}});
  }
  const auto together = solve_analogies(words, questions);
  for (std::size_t q = 0; q < questions.size(); ++q) {
    CHECK(together[q] == by_definition(words, questions[q]));
    CHECK(together[q] == solve_analogies(words, std::span(questions).subspan(q, 1)).front());
  }
}

}  // namespace
}  // namespace unisono::apply
