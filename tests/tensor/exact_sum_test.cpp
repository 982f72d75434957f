#include "unisono/tensor/exact_sum.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace unisono {
namespace {

double sum_of(const std::vector<float>& values) {
  ExactSquares sum;
  sum.add(values);
  return sum.value();
}

TEST_CASE("squares of single numbers are exact", "[exact]") {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min(), kLargest = std::numeric_limits<float>::max();
  for (const float value : {0.0F, 1.0F, -3.0F, 0.1F, 1e-20F, 1e-40F, 3e38F, kLeast, kLargest,
                            std::numeric_limits<float>::min(), 16777215.0F}) {
    CHECK(sum_of({value}) == static_cast<double>(value) * value);
  }
}

TEST_CASE("nothing is lost between numbers of very different sizes", "[exact]") {
  // In doubles the small squares vanish beside 2¹⁰⁰; here 2²⁰ of them make 2⁻²⁰ · 2²⁰.
  std::vector<float> values(1 << 20, 0x1p-10F);
  CHECK(sum_of(values) == 1);
  ExactSquares sum;
  sum.add(std::vector<float>{0x1p50F});
  sum.add(values);
  auto words = sum.words();
  words[12] -= std::int64_t{1} << 14;  // 2^(32·12 − 298 + 14) = 2¹⁰⁰
  CHECK(ExactSquares::of_words(words).value() == 1);
}

TEST_CASE("the sum depends neither on the order nor on who adds what", "[exact]") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(10'000);
  for (float& value : values) value = std::ldexp(normal(random), static_cast<int>(random() % 60) - 30);
  const double expected = sum_of(values);
  double plain = 0;
  for (const float value : values) plain += static_cast<double>(value) * value;
  CHECK(std::abs(expected - plain) <= 1e-12 * plain);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    ExactSquares parts[3], all;
    std::size_t first = 0;
    for (int part = 0; part < 3; ++part) {
      const std::size_t last = part == 2 ? values.size() : first + random() % (values.size() - first);
      parts[part].add(View(values).subspan(first, last - first));
      first = last;
    }
    for (const ExactSquares& part : parts) all.add(part);
    CHECK(all.value() == expected);
    // As ranks do it: their words are added.
    auto words = parts[0].words();
    for (std::size_t i = 0; i < words.size(); ++i) words[i] += parts[1].words()[i] + parts[2].words()[i];
    CHECK(ExactSquares::of_words(words).value() == expected);
  }
}

TEST_CASE("what is no number, or infinite, shows", "[exact]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  CHECK(sum_of({1, kInfinity}) == std::numeric_limits<double>::infinity());
  CHECK(sum_of({1, -kInfinity}) == std::numeric_limits<double>::infinity());
  CHECK(std::isnan(sum_of({1, kInfinity, std::numeric_limits<float>::quiet_NaN()})));
}

}  // namespace
}  // namespace unisono
