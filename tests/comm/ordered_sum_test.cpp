#include "ordered_sum.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

using namespace unisono::comm;

TEST_CASE("values are added in the order of the ranks", "[ordered_sum]") {
  // In floats 2²⁴ + 1 rounds to 2²⁴: (2²⁴ + 1) + 1 is 2²⁴, and (1 + 1) + 2²⁴ is 2²⁴ + 2.
  constexpr float kLarge = 0x1p24F;
  const unisono::Index n = GENERATE(0, 1, 15, 16, 17, 100);
  const auto size = static_cast<std::size_t>(n);
  const std::vector<float> large(size, kLarge), one(size, 1.0F);
  std::vector<float> first(size), last(size);
  const auto sum = [&](std::vector<const float*> inputs, std::vector<float>& target) {
    float* const to = target.data();
    unisono::comm::combine_in_order<float>(inputs, std::span(&to, 1), n, unisono::comm::Sum{});
  };
  sum({large.data(), one.data(), one.data()}, first);
  sum({one.data(), one.data(), large.data()}, last);
  CHECK(first == std::vector<float>(size, kLarge));
  CHECK(last == std::vector<float>(size, kLarge + 2));
}

TEST_CASE("the values of a group of one rank stay as they are, or are copied", "[ordered_sum]") {
  std::vector<float> values{1, -0.0F, 3}, copy(3);
  const float* const input = values.data();
  for (float* const target : {values.data(), copy.data()}) {
    unisono::comm::combine_in_order<float>(std::span(&input, 1), std::span(&target, 1), 3, unisono::comm::Sum{});
  }
  CHECK(values == std::vector<float>{1, 0, 3});
  CHECK(std::signbit(values[1]));
  CHECK(copy == values);
}

TEST_CASE("all inputs may be targets", "[ordered_sum]") {
  std::vector<std::int64_t> a(21), b(21), c(21);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int64_t>(i);
    b[i] = 100;
    c[i] = -3;
  }
  const std::vector<std::int64_t*> targets{a.data(), b.data(), c.data()};
  const std::vector<const std::int64_t*> inputs(targets.begin(), targets.end());
  unisono::comm::combine_in_order<std::int64_t>(inputs, targets, 21, unisono::comm::Sum{});
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == static_cast<std::int64_t>(i) + 97);
  CHECK(a == b);
  CHECK(a == c);
}

TEST_CASE("the largest is taken from any place", "[ordered_sum]") {
  const std::vector<double> a{1, -2, 3}, b{0, -1, 4}, c{2, -3, -5};
  std::vector<double> largest(3);
  const std::vector<const double*> inputs{a.data(), b.data(), c.data()};
  double* const target = largest.data();
  unisono::comm::combine_in_order<double>(inputs, std::span(&target, 1), 3, unisono::comm::Max{});
  CHECK(largest == std::vector<double>{2, -1, 4});
}
