#include "unisono/base/random.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <vector>

namespace unisono {
namespace {

constexpr std::size_t kDraws = 100'000;

/// The streams are deterministic, so a test passes always or never; a sound generator misses a bound of so many
/// standard errors once in 1.7 million tests.
constexpr double kStandardErrors = 5;

std::vector<double> draw(std::size_t n, const std::function<double()>& next) {
  std::vector<double> values(n);
  std::generate(values.begin(), values.end(), next);
  return values;
}

double mean(const std::vector<double>& values, const std::function<double(double)>& f) {
  return std::accumulate(values.begin(), values.end(), 0.0, [&](double sum, double x) { return sum + f(x); }) /
         static_cast<double>(values.size());
}

/// |mean of n values − expectation| ≤ 5 deviation / √n
void check_mean(double measured, double expectation, double deviation, std::size_t n) {
  CHECK(std::abs(measured - expectation) <= kStandardErrors * deviation / std::sqrt(static_cast<double>(n)));
}

/// Σ (observed − expected)² / expected over k equally likely bins has the mean k − 1 and the variance 2 (k − 1).
void check_equally_likely(const std::vector<std::int64_t>& counts) {
  const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const double expected = static_cast<double>(total) / static_cast<double>(counts.size());
  double statistic = 0;
  for (const std::int64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    statistic += difference * difference / expected;
  }
  const auto freedom = static_cast<double>(counts.size() - 1);
  CHECK(statistic <= freedom + kStandardErrors * std::sqrt(2 * freedom));
}

TEST_CASE("Philox 4x32-10 gives Random123's published answers", "[random]") {
  // Random123 1.14, tests/kat_vectors, lines "philox4x32 10": counter, key, result.
  CHECK(philox(0, {0, 0, 0, 0}) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(0xffffffff'ffffffff, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
        std::array<std::uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0'a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
        std::array<std::uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("a stream is a function of seed, purpose, a and b", "[random]") {
  const auto first = [](RandomStream stream) { return (std::uint64_t{stream.bits()} << 32) | stream.bits(); };
  const std::uint64_t value = first({7, Purpose::dropout, 3, 5});
  CHECK(first({7, Purpose::dropout, 3, 5}) == value);
  CHECK(first({8, Purpose::dropout, 3, 5}) != value);
  CHECK(first({7, Purpose::order, 3, 5}) != value);
  CHECK(first({7, Purpose::dropout, 4, 5}) != value);
  CHECK(first({7, Purpose::dropout, 3, 6}) != value);
  CHECK(first({7, Purpose::dropout, 3 + (1ULL << 32), 5}) != value);
}

TEST_CASE("neighbouring streams share no values and do not correlate", "[random]") {
  std::vector<RandomStream> streams;
  for (std::uint64_t i = 0; i < 3; ++i) {
    streams.emplace_back(1 + i, Purpose::test, 0, 0);
    streams.emplace_back(1, Purpose::test, 1 + i, 0);
    streams.emplace_back(1, Purpose::test, 0, static_cast<std::uint32_t>(1 + i));
  }
  streams.emplace_back(1, Purpose::split, 0, 0);
  constexpr std::size_t n = 10'000;
  std::vector<std::vector<double>> drawn;
  for (RandomStream& stream : streams) drawn.push_back(draw(n, [&] { return stream.uniform() - 0.5; }));
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      // Products of two independent values of variance 1/12 have the mean 0 and the deviation 1/12.
      const double products = std::inner_product(drawn[i].begin(), drawn[i].end(), drawn[j].begin(), 0.0);
      check_mean(products / n, 0, 1.0 / 12, n);
    }
  }
}

TEST_CASE("the values of a stream do not repeat with its blocks", "[random]") {
  RandomStream stream(1, Purpose::test);
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 10'000; ++i) seen.insert((std::uint64_t{stream.bits()} << 32) | stream.bits());
  CHECK(seen.size() == 10'000);  // two of 10⁴ random 64-bit numbers are equal with probability 3·10⁻¹²
}

TEST_CASE("what is skipped is what would have been drawn", "[random]") {
  std::vector<std::uint32_t> all;
  RandomStream stream(3, Purpose::test, 5);
  for (int i = 0; i < 40; ++i) all.push_back(stream.bits());
  for (std::size_t before = 0; before < 6; ++before) {
    for (std::size_t skipped = 0; skipped < 20; ++skipped) {
      RandomStream other(3, Purpose::test, 5);
      for (std::size_t i = 0; i < before; ++i) other.bits();
      other.skip(skipped);
      for (std::size_t i = before + skipped; i < before + skipped + 6; ++i) CHECK(other.bits() == all[i]);
    }
  }
}

TEST_CASE("uniform numbers are multiples of 2⁻²⁴ in [0, 1) with mean 1/2 and variance 1/12", "[random]") {
  RandomStream stream(1, Purpose::test);
  const auto values = draw(kDraws, [&] { return stream.uniform(); });
  CHECK(std::all_of(values.begin(), values.end(),
                    [](double x) { return x >= 0 && x < 1 && x * 0x1p24 == std::floor(x * 0x1p24); }));
  check_mean(mean(values, [](double x) { return x; }), 0.5, std::sqrt(1.0 / 12), kDraws);
  // (x − 1/2)² has the variance 1/80 − 1/144 = 1/180.
  check_mean(mean(values, [](double x) { return (x - 0.5) * (x - 0.5); }), 1.0 / 12, std::sqrt(1.0 / 180), kDraws);

  std::vector<std::int64_t> counts(64);
  for (const double x : values) ++counts[static_cast<std::size_t>(x * 64)];
  check_equally_likely(counts);

  const auto shifted = draw(1'000, [&] { return stream.uniform(-3.0F, 5.0F); });
  CHECK(std::all_of(shifted.begin(), shifted.end(), [](double x) { return x >= -3 && x < 5; }));
  check_mean(mean(shifted, [](double x) { return x; }), 1.0, 8 * std::sqrt(1.0 / 12), 1'000);
}

TEST_CASE("normal numbers have the moments and tails of the standard normal distribution", "[random]") {
  RandomStream stream(1, Purpose::test);
  const auto values = draw(kDraws, [&] { return stream.normal(); });
  const auto power = [&](int k) { return mean(values, [k](double x) { return std::pow(x, k); }); };
  // The variance of x^k is E x^2k − (E x^k)²; the even moments are 1, 3, 15, 105.
  check_mean(power(1), 0, 1, kDraws);
  check_mean(power(2), 1, std::sqrt(3 - 1.0), kDraws);
  check_mean(power(3), 0, std::sqrt(15.0), kDraws);
  check_mean(power(4), 3, std::sqrt(105 - 9.0), kDraws);
  const double tail = std::erfc(3 / std::sqrt(2.0));  // P(|x| > 3) = 0.0027
  check_mean(mean(values, [](double x) { return std::abs(x) > 3 ? 1 : 0; }), tail, std::sqrt(tail), kDraws);
}

TEST_CASE("below(n) draws every number below n, equally often", "[random]") {
  RandomStream stream(1, Purpose::test);
  for (int i = 0; i < 100; ++i) CHECK(stream.below(1) == 0);
  for (const std::uint64_t n : {2, 7, 10, 64}) {
    std::vector<std::int64_t> counts(n);
    for (std::size_t i = 0; i < kDraws; ++i) ++counts.at(stream.below(n));
    check_equally_likely(counts);
  }
}

TEST_CASE("below(n) is unbiased where n does not divide 2⁶⁴", "[random]") {
  // For n = ¾ 2⁶⁴ the remainder of 64 random bits would lie below 2⁶² twice as often as it should: ½ instead of ⅓.
  RandomStream stream(1, Purpose::test);
  const std::uint64_t quarter = std::uint64_t{1} << 62;
  const auto low = draw(kDraws, [&] { return stream.below(3 * quarter) < quarter ? 1.0 : 0.0; });
  check_mean(mean(low, [](double x) { return x; }), 1.0 / 3, std::sqrt(2.0 / 9), kDraws);
}

TEST_CASE("a permutation holds every number once", "[random]") {
  for (const std::uint64_t n : {0, 1, 2, 5, 1000}) {
    std::vector<std::uint64_t> order = permutation(n, RandomStream(1, Purpose::order));
    std::sort(order.begin(), order.end());
    std::vector<std::uint64_t> expected(n);
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(order == expected);
  }
  CHECK(permutation(100, RandomStream(1, Purpose::order, 1)) != permutation(100, RandomStream(1, Purpose::order, 2)));
}

TEST_CASE("all orders are equally likely", "[random]") {
  std::map<std::vector<std::uint64_t>, std::int64_t> counts;
  for (std::uint64_t epoch = 0; epoch < 24'000; ++epoch) {
    ++counts[permutation(4, RandomStream(1, Purpose::order, epoch))];
  }
  REQUIRE(counts.size() == 24);  // 4!
  std::vector<std::int64_t> values;
  for (const auto& [order, count] : counts) values.push_back(count);
  check_equally_likely(values);
}

}  // namespace
}  // namespace unisono
