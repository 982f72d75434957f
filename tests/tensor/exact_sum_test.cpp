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

/// To 40 bits: what is added cuts the other 13 off.
double rounded(double value) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(fraction, ExactSquares::kBits)), exponent - ExactSquares::kBits);
}

TEST_CASE("the square of a single number is rounded once", "[exact]") {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min(), kLargest = std::numeric_limits<float>::max();
  for (const float value : {0.0F, 1.0F, -3.0F, 0.1F, 1e-20F, 1e-40F, 3e38F, kLeast, kLargest,
                            std::numeric_limits<float>::min(), 16777215.0F, 1048577.0F, 1234567.0F}) {
    INFO(value);
    const double square = static_cast<double>(value) * value;
    CHECK(sum_of({value}) == rounded(square));
    ExactSquares sum;
    sum.add_sum(square);
    CHECK(sum.value() == rounded(square));
    if (const auto settled = ExactSquares::settled_value(square)) CHECK(*settled == rounded(square));
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

TEST_CASE("halves are rounded to even, and what is above a half by however little is rounded up", "[exact]") {
  // 2⁴⁰ and one more than it: halfway between two numbers of 40 bits.
  const auto sum_of_doubles = [](const std::vector<double>& terms) {
    ExactSquares sum;
    for (const double term : terms) sum.add_sum(term);
    return sum.value();
  };
  CHECK(sum_of_doubles({0x1p40, 1}) == 0x1p40);
  CHECK(sum_of_doubles({0x1p40, 3}) == 0x1p40 + 4);
  CHECK(sum_of_doubles({0x1p40, 1, 0x1p-290}) == 0x1p40 + 2);
  CHECK(sum_of_doubles({0x1p40, 2, -1}) == 0x1p40);
  CHECK_FALSE(ExactSquares::settled_value(0x1p40 + 1));
  CHECK(ExactSquares::settled_value(0x1p40 + 0.5) == 0x1p40);
}

TEST_CASE("the sum depends neither on the order nor on who adds what, or how", "[exact]") {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(10'000);
  for (float& value : values) value = std::ldexp(normal(random), static_cast<int>(random() % 60) - 30);
  const double expected = sum_of(values);
  double plain = 0;
  for (const float value : values) plain += static_cast<double>(value) * value;
  CHECK(std::abs(expected - plain) <= 1e-11 * plain);
  for (int round = 0; round < 5; ++round) {
    std::shuffle(values.begin(), values.end(), random);
    ExactSquares parts[3], all, of_doubles;
    std::size_t first = 0;
    for (int part = 0; part < 3; ++part) {
      const std::size_t last = part == 2 ? values.size() : first + random() % (values.size() - first);
      parts[part].add(View(values).subspan(first, last - first));
      for (std::size_t i = first; i < last; ++i) of_doubles.add_sum(static_cast<double>(values[i]) * values[i]);
      first = last;
    }
    for (const ExactSquares& part : parts) all.add(part);
    CHECK(all.value() == expected);
    CHECK(of_doubles.value() == expected);
    CHECK(of_doubles.settled_value().value_or(expected) == expected);
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
  ExactSquares sum;
  sum.add_sum(std::numeric_limits<double>::infinity());
  CHECK_FALSE(sum.settled_value());
  CHECK(sum.value() == std::numeric_limits<double>::infinity());
  CHECK_FALSE(ExactSquares::settled_value(std::nan("")));
}

}  // namespace
}  // namespace unisono
