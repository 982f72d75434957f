#include "generate/sampler.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "unisono/base/errors.hpp"

namespace unisono::apply {
namespace {

using Tokens = std::vector<std::int32_t>;

/// Logits of the probabilities 0.1, 0.4, 0.2, 0.3.
std::vector<float> four() { return {std::log(0.1F), std::log(0.4F), std::log(0.2F), std::log(0.3F)}; }

Tokens candidates(const SamplingRule& rule, const std::vector<float>& logits, const Tokens& seen = {}) {
  Tokens tokens;
  for (const WeightedToken& candidate : Sampler(rule, 1).candidates(logits, seen)) tokens.push_back(candidate.token);
  return tokens;
}

/// The probabilities that a rule draws with.
std::vector<double> probabilities(const SamplingRule& rule, const std::vector<float>& logits, const Tokens& seen = {}) {
  std::vector<double> made(logits.size());
  double sum = 0;
  const auto all = Sampler(rule, 1).candidates(logits, seen);
  for (const WeightedToken& candidate : all) sum += candidate.weight;
  for (const WeightedToken& candidate : all) made[static_cast<std::size_t>(candidate.token)] = candidate.weight / sum;
  return made;
}

void check_close(const std::vector<double>& made, const std::vector<double>& expected) {
  REQUIRE(made.size() == expected.size());
  for (std::size_t i = 0; i < made.size(); ++i) CHECK(made[i] == Approx(expected[i]).margin(1e-6));
}

}  // namespace

TEST_CASE("without other settings tokens are drawn as the model says", "[sampler]") {
  check_close(probabilities({}, four()), {0.1, 0.4, 0.2, 0.3});
}

TEST_CASE("temperature is a power of the probabilities", "[sampler]") {
  // p² / Σ p² = (1, 16, 4, 9) / 30
  check_close(probabilities({.temperature = 0.5}, four()), {1 / 30.0, 16 / 30.0, 4 / 30.0, 9 / 30.0});
}

TEST_CASE("temperature 0 takes the most likely token, of equals the first", "[sampler]") {
  CHECK(candidates({.temperature = 0}, four()) == Tokens{1});
  CHECK(candidates({.temperature = 0}, {0, 2, 2, 1}) == Tokens{1});
}

TEST_CASE("top-k keeps the k most likely tokens, of equals the first", "[sampler]") {
  CHECK(candidates({.top_k = 2}, four()) == Tokens{1, 3});
  CHECK(candidates({.top_k = 9}, four()) == Tokens{0, 1, 2, 3});
  CHECK(candidates({.top_k = 2}, {1, 1, 1, 1}) == Tokens{0, 1});
  check_close(probabilities({.top_k = 2}, four()), {0, 4 / 7.0, 0, 3 / 7.0});
}

TEST_CASE("top-p keeps the fewest tokens that reach the probability together", "[sampler]") {
  CHECK(candidates({.top_p = 0.1}, four()) == Tokens{1});
  CHECK(candidates({.top_p = 0.39}, four()) == Tokens{1});
  CHECK(candidates({.top_p = 0.41}, four()) == Tokens{1, 3});
  CHECK(candidates({.top_p = 0.69}, four()) == Tokens{1, 3});
  CHECK(candidates({.top_p = 0.71}, four()) == Tokens{1, 2, 3});
  CHECK(candidates({.top_p = 1}, four()) == Tokens{0, 1, 2, 3});
  // of the two most likely ones, 4/7 and 3/7
  CHECK(candidates({.top_k = 2, .top_p = 0.56}, four()) == Tokens{1});
  CHECK(candidates({.top_k = 2, .top_p = 0.58}, four()) == Tokens{1, 3});
}

TEST_CASE("the penalty divides positive logits of tokens that were there, and multiplies negative ones", "[sampler]") {
  const std::vector<float> logits = {2, -1, 0, 1};
  const double e = std::exp(1.0), sum = e + std::exp(-2.0) + 1 + e;  // logits 1, −2, 0, 1
  check_close(probabilities({.repetition_penalty = 2}, logits, {0, 1, 0, 0}),
              {e / sum, std::exp(-2.0) / sum, 1 / sum, e / sum});
  CHECK(candidates({.temperature = 0, .repetition_penalty = 3}, logits, {0}) == Tokens{3});
}

// Of n draws a token of probability p is drawn np ± 5 √(np(1 − p)) times but for one case in two millions; the numbers
// are a function of the seed, so that the test passes always or never.
TEST_CASE("tokens are drawn as often as their probabilities say", "[sampler]") {
  constexpr int kDraws = 20000;
  const std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  std::vector<int> counts(4);
  Sampler sampler({}, 7);
  for (std::uint32_t i = 0; i < kDraws; ++i) {
    const DrawnToken drawn = sampler.draw(four(), {}, i % 10, i / 10);
    ++counts[static_cast<std::size_t>(drawn.token)];
    CHECK(drawn.log_probability == Approx(std::log(p[static_cast<std::size_t>(drawn.token)])).epsilon(1e-6));
  }
  for (std::size_t i = 0; i < p.size(); ++i) {
    CHECK(std::abs(counts[i] - kDraws * p[i]) < 5 * std::sqrt(kDraws * p[i] * (1 - p[i])));
  }
}

TEST_CASE("a draw depends on the seed, the text and the place", "[sampler]") {
  const std::vector<float> even(1000);
  const auto draw = [&](std::uint64_t seed, std::uint64_t text, std::uint32_t place) {
    return Sampler({}, seed).draw(even, {}, text, place).token;
  };
  CHECK(draw(1, 2, 3) == draw(1, 2, 3));
  CHECK(draw(1, 2, 3) != draw(2, 2, 3));
  CHECK(draw(1, 2, 3) != draw(1, 3, 3));
  CHECK(draw(1, 2, 3) != draw(1, 2, 4));
}

TEST_CASE("probabilities are the model's own, whatever the rule", "[sampler]") {
  const DrawnToken drawn = Sampler({.temperature = 0, .repetition_penalty = 9}, 1).draw(four(), Tokens{1}, 0, 0);
  CHECK(drawn.log_probability == Approx(std::log(drawn.token == 1 ? 0.4 : drawn.token == 3 ? 0.3 : 0.1)).epsilon(1e-6));
}

TEST_CASE("outputs that are no numbers are refused", "[sampler]") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  Sampler sampler({}, 1);
  CHECK_THROWS_AS(sampler.draw(std::vector<float>{0, nan}, {}, 0, 0), CheckpointError);
  CHECK_THROWS_AS(sampler.draw(std::vector<float>{nan, 0}, {}, 0, 0), CheckpointError);
  CHECK_THROWS_AS(sampler.draw(std::vector<float>{infinite, 0}, {}, 0, 0), CheckpointError);
}

}  // namespace unisono::apply
