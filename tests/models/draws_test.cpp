#include "words/windows.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

namespace unisono::models {
namespace {

FastRandom draw_random_at(std::uint64_t number) {
  RandomStream start(1, Purpose::test, number);
  return FastRandom(start);
}

/// Σ (observed − expected)² / expected over the numbers that can be drawn; -1 where one was drawn that cannot.
double chi_square(const std::vector<std::int64_t>& observed, const std::vector<double>& weights, double draws) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double expected = draws * weights[i] / total;
    if (expected == 0 && observed[i] > 0) return -1;
    if (expected > 0) sum += std::pow(static_cast<double>(observed[i]) - expected, 2) / expected;
  }
  return sum;
}

}  // namespace

TEST_CASE("an alias table draws each number with its probability", "[draws]") {
  std::vector<double> zipf;
  for (int i = 1; i <= 200; ++i) zipf.push_back(std::pow(1e6 / i, 0.75));
  const std::vector<std::vector<double>> tables = {
      {1}, {1, 1}, {1, 3}, {0, 1, 0, 2, 5}, {1e-3, 1, 1e3, 1}, std::vector<double>(64, 2.5), zipf};
  for (const auto& weights : tables) {
    CAPTURE(weights.size());
    const AliasTable table{std::span<const double>(weights)};
    FastRandom random = draw_random_at(weights.size());
    constexpr int kDraws = 400'000;
    std::vector<std::int64_t> observed(weights.size());
    for (int i = 0; i < kDraws; ++i) ++observed[static_cast<std::size_t>(table.draw(random))];
    const double freedom = static_cast<double>(weights.size()) - 1;
    // χ² has the mean k and the variance 2 k: beyond mean and 5 deviations, and a little for small k, once in a
    // million.
    const double statistic = chi_square(observed, weights, kDraws);
    CHECK(statistic >= 0);
    CHECK(statistic <= freedom + 5 * std::sqrt(2 * freedom) + 15);
  }
}

TEST_CASE("fast random numbers are uniform, also one behind the other", "[draws]") {
  constexpr int kSide = 16, kDraws = 256 * 1000;
  FastRandom random = draw_random_at(3);
  std::vector<std::int64_t> pairs(kSide * kSide);
  for (int i = 0; i < kDraws; ++i) {
    const std::uint32_t a = random.below(kSide), b = random.below(kSide);
    REQUIRE(a < kSide);
    ++pairs[a * kSide + b];
  }
  CHECK(chi_square(pairs, std::vector<double>(pairs.size(), 1), kDraws) <= 255 + 5 * std::sqrt(2.0 * 255));
}

TEST_CASE("a fast generator is a function of the place where it was started", "[draws]") {
  FastRandom a = draw_random_at(3), b = draw_random_at(3), c = draw_random_at(4);
  int same = 0;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t bits = a.bits();
    CHECK(bits == b.bits());
    same += bits == c.bits() ? 1 : 0;
  }
  CHECK(same == 0);
  CHECK(a.below(1) == 0);
}

}  // namespace unisono::models
