#include "words/windows.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <set>

#include "unisono/base/errors.hpp"
#include "value_of.hpp"

namespace unisono::models {
namespace {

FastRandom window_random_at(std::uint64_t number) {
  RandomStream start(2, Purpose::test, number);
  return FastRandom(start);
}

std::vector<std::int32_t> counting(std::size_t n) {
  std::vector<std::int32_t> words(n);
  std::iota(words.begin(), words.end(), 0);
  return words;
}

/// A whole window. \return whether there is a context
bool draw(const WindowSampler& sampler, const std::vector<std::int32_t>& words, std::size_t i, FastRandom& random,
          Window& window) {
  sampler.draw_context(words, i, random, window.context);
  if (window.context.empty()) return false;
  sampler.draw_outputs(words[i], random, window);
  return true;
}

}  // namespace

TEST_CASE("negatives are shared where that is wanted and possible", "[windows]") {
  const std::vector<std::int64_t> counts(9, 1);
  const auto group = [&](const std::string& architecture, const std::string& output) {
    return WindowSampler({.architecture = value_of(architecture, kWordArchitectures),
                          .output = value_of(output, kWordOutputs),
                          .window = 5,
                          .negatives_shared_by = 3},
                         counts)
        .group();
  };
  CHECK(group("skip_gram", "negative_sampling") == 3);
  CHECK(group("cbow", "negative_sampling") == 10);
  CHECK(group("skip_gram", "hierarchical_softmax") == 10);
}

TEST_CASE("windows reach 1 to so many words, each as often", "[windows]") {
  const WindowSampler sampler({.window = 4, .negatives = 1, .subsample = 0}, std::vector<std::int64_t>(100, 1));
  const std::vector<std::int32_t> words = counting(100);
  FastRandom random = window_random_at(1);
  Window window;
  std::vector<int> reached(5);
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    REQUIRE(draw(sampler, words, 50, random, window));
    const std::size_t reach = window.context.size() / 2;
    REQUIRE((reach >= 1 && reach <= 4));
    ++reached[reach];
    std::vector<std::int32_t> expected;
    for (std::int32_t k = 50 - static_cast<std::int32_t>(reach); k <= 50 + static_cast<std::int32_t>(reach); ++k) {
      if (k != 50) expected.push_back(k);
    }
    REQUIRE(window.context == expected);
  }
  // Binomial with p = ¼: 5 deviations are 5 √(kDraws · 3/16) = 433.
  for (std::size_t reach = 1; reach <= 4; ++reach) CHECK(std::abs(reached[reach] - kDraws / 4) <= 433);
}

TEST_CASE("a window ends where the sentence does", "[windows]") {
  const WindowSampler sampler({.window = 3, .negatives = 1, .subsample = 0}, std::vector<std::int64_t>(9, 1));
  FastRandom random = window_random_at(2);
  Window window;
  const std::vector<std::int32_t> words = {4, 7};
  for (int i = 0; i < 20; ++i) {
    REQUIRE(draw(sampler, words, 0, random, window));
    CHECK(window.context == std::vector<std::int32_t>{7});
    REQUIRE(draw(sampler, words, 1, random, window));
    CHECK(window.context == std::vector<std::int32_t>{4});
  }
  CHECK_FALSE(draw(sampler, std::vector<std::int32_t>{4}, 0, random, window));
}

TEST_CASE("negatives are distinct, never the word itself, and drawn by count^0.75", "[windows]") {
  const std::vector<std::int64_t> counts = {1000, 500, 200, 100, 50, 20, 10, 5, 0};
  const WindowSampler sampler({.window = 1, .negatives = 3, .subsample = 0}, counts);
  FastRandom random = window_random_at(3);
  Window window;
  const std::vector<std::int32_t> words = {8, 3, 2};
  std::vector<double> first(9);
  constexpr int kDraws = 40'000;
  for (int i = 0; i < kDraws; ++i) {
    REQUIRE(draw(sampler, words, 1, random, window));
    REQUIRE(window.outputs.size() == 4);
    REQUIRE(window.outputs[0] == 3);
    REQUIRE(std::set<std::int32_t>(window.outputs.begin(), window.outputs.end()).size() == 4);
    REQUIRE(std::vector<float>(window.targets.begin(), window.targets.end()) == std::vector<float>{1, 0, 0, 0});
    ++first[static_cast<std::size_t>(window.outputs[1])];
  }
  double total = 0;
  for (std::size_t i = 0; i < 9; ++i) total += i == 3 ? 0 : std::pow(static_cast<double>(counts[i]), 0.75);
  for (std::size_t i = 0; i < 9; ++i) {
    const double p = i == 3 ? 0 : std::pow(static_cast<double>(counts[i]), 0.75) / total;
    CHECK(std::abs(first[i] - kDraws * p) <= 5 * std::sqrt(kDraws * p * (1 - p)));
  }
}

TEST_CASE("where there are too few words, there are fewer negatives", "[windows]") {
  const WindowSampler sampler({.window = 1, .negatives = 10, .subsample = 0}, std::vector<std::int64_t>{5, 1, 1, 0});
  FastRandom random = window_random_at(4);
  Window window;
  REQUIRE(draw(sampler, std::vector<std::int32_t>{0, 1}, 0, random, window));
  CHECK(std::set<std::int32_t>(window.outputs.begin(), window.outputs.end()) == std::set<std::int32_t>{0, 1, 2});

  // A vocabulary of one word has none; the window of a pair of them is still one.
  const WindowSampler one({.window = 1, .negatives = 10, .subsample = 0}, std::vector<std::int64_t>{5});
  REQUIRE(draw(one, std::vector<std::int32_t>{0, 0}, 0, random, window));
  CHECK(window.outputs.size() == 1);
  // One word takes nearly all draws: they end all the same.
  const WindowSampler uneven({.window = 1, .negatives = 2, .subsample = 0},
                             std::vector<std::int64_t>{std::int64_t{1} << 50, 1, 1});
  REQUIRE(draw(uneven, std::vector<std::int32_t>{0, 1}, 0, random, window));
  CHECK(window.outputs.size() >= 1);
}

TEST_CASE("subsampling keeps a word with its probability", "[windows]") {
  // Frequencies 0.9, 0.09, 0.01 at t = 0.01: √(f/t) + 1 times t/f: 0.117, 0.444, 1 (and more).
  const std::vector<std::int64_t> counts = {900, 90, 10};
  constexpr double kT = 0.01;
  const WindowSampler sampler({.subsample = kT}, counts);
  constexpr int kWords = 30'000;
  FastRandom random = window_random_at(5);
  std::vector<std::int32_t> kept;
  for (std::int32_t word = 0; word < 3; ++word) {
    sampler.subsample(std::vector<std::int32_t>(kWords, word), random, kept);
    CHECK(std::count(kept.begin(), kept.end(), word) == static_cast<std::ptrdiff_t>(kept.size()));
    const double f = static_cast<double>(counts[static_cast<std::size_t>(word)]) / 1000;
    const double p = std::min(1.0, (std::sqrt(f / kT) + 1) * kT / f);
    CHECK(std::abs(static_cast<double>(kept.size()) - kWords * p) <= 5 * std::sqrt(kWords * p * (1 - p)));
  }
  const WindowSampler all({.subsample = 0}, counts);
  all.subsample(counting(3), random, kept);
  CHECK(kept == counting(3));
  const WindowSampler unknown({.subsample = kT}, std::vector<std::int64_t>{0, 0});  // counts that say nothing
  unknown.subsample(std::vector<std::int32_t>{0, 1}, random, kept);
  CHECK(kept.size() <= 2);
}

TEST_CASE("hierarchical softmax has a word's path for its outputs", "[windows]") {
  const std::vector<std::int64_t> counts = {7, 4, 2, 1};
  const WindowSampler sampler({.output = WordOutput::hierarchical_softmax, .window = 1, .subsample = 0}, counts);
  const HuffmanTree tree(counts);
  FastRandom random = window_random_at(6);
  Window window;
  for (std::int32_t word = 0; word < 4; ++word) {
    REQUIRE(draw(sampler, std::vector<std::int32_t>{0, word}, 1, random, window));
    CHECK(std::equal(window.outputs.begin(), window.outputs.end(), tree.nodes(word).begin(), tree.nodes(word).end()));
    CHECK(
        std::equal(window.targets.begin(), window.targets.end(), tree.targets(word).begin(), tree.targets(word).end()));
  }
}

TEST_CASE("a path that is too long is refused", "[windows]") {
  std::vector<std::int64_t> fibonacci = {1, 1};  // the counts with the deepest tree
  while (fibonacci.size() < 70) fibonacci.push_back(fibonacci.back() + fibonacci[fibonacci.size() - 2]);
  CHECK_THROWS_WITH(
      WindowSampler({.output = WordOutput::hierarchical_softmax}, fibonacci),
      Catch::Contains("the longest path has 69 nodes, more than 64") && Catch::Contains("--minimum-count"));
  CHECK_NOTHROW(WindowSampler({.output = WordOutput::negative_sampling}, fibonacci));
}

}  // namespace unisono::models
