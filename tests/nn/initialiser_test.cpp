#include "unisono/nn/initialiser.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "divisions.hpp"
#include "unisono/base/random.hpp"

namespace unisono::nn {
namespace {

/// One block of this initialiser, filled; in the vector's order.
std::vector<float> values_of(Initialiser initialiser, std::vector<Index> shape, Index fan_in, Index fan_out,
                             std::uint64_t seed = 1, std::vector<int> axes = {}) {
  ParameterLayout layout;
  layout.add({.name = "w",
              .shape = std::move(shape),
              .axes = std::move(axes),
              .fan_in = fan_in,
              .fan_out = fan_out,
              .initialiser = initialiser});
  std::vector<float> vector(static_cast<std::size_t>(layout.size()), -1.0F);
  initialise(layout, seed, vector);
  vector.resize(static_cast<std::size_t>(layout.blocks()[0].size()));
  return vector;
}

struct Moments {
  double mean = 0, variance = 0, largest = 0;
};

Moments moments(const std::vector<float>& values) {
  Moments of;
  for (const float value : values) {
    of.mean += value / static_cast<double>(values.size());
    of.largest = std::max<double>(of.largest, std::abs(value));
  }
  for (const float value : values)
    of.variance += (value - of.mean) * (value - of.mean) / static_cast<double>(values.size());
  return of;
}

// The mean of n draws has deviation σ/√n, their variance σ² √((κ − 1)/n), with κ = 3 for a normal distribution and 9/5
// for a uniform one. Five deviations are allowed: once in 1.7 million.
void check_distribution(Initialiser initialiser, double variance, bool normal) {
  constexpr Index kOut = 300, kIn = 200;
  constexpr double kDraws = kOut * kIn;
  const Moments of = moments(values_of(initialiser, {kOut, kIn}, kIn, kOut));
  INFO(name_of(initialiser, kInitialisers));
  CHECK(std::abs(of.mean) < 5 * std::sqrt(variance / kDraws));
  CHECK(std::abs(of.variance - variance) < 5 * variance * std::sqrt((normal ? 2.0 : 0.8) / kDraws));
  if (normal) {
    CHECK(of.largest > 3.5 * std::sqrt(variance));  // 28 of 60,000 are; none with probability e⁻²⁸
  } else {
    CHECK(of.largest <= std::sqrt(3 * variance) * (1 + 0x1p-22));
    CHECK(of.largest > 0.999 * std::sqrt(3 * variance));
  }
}

TEST_CASE("every initialiser has the variance of its formula", "[initialiser]") {
  check_distribution(Initialiser::he_normal, 2.0 / 200, true);
  check_distribution(Initialiser::he_uniform, 2.0 / 200, false);
  check_distribution(Initialiser::glorot_normal, 2.0 / 500, true);
  check_distribution(Initialiser::glorot_uniform, 2.0 / 500, false);
  check_distribution(Initialiser::lecun_normal, 1.0 / 200, true);
  check_distribution(Initialiser::lecun_uniform, 1.0 / 200, false);
  check_distribution(Initialiser::normal, 1e-4, true);
  check_distribution(Initialiser::uniform, 1.0 / 600, false);
}

TEST_CASE("constants are constants", "[initialiser]") {
  CHECK(values_of(Initialiser::zeros, {3}, 1, 1) == std::vector<float>(3, 0.0F));
  CHECK(values_of(Initialiser::ones, {3}, 1, 1) == std::vector<float>(3, 1.0F));
}

TEST_CASE("every initialiser that a config may name is there", "[initialiser]") {
  for (const auto& one : kInitialisers) CHECK_NOTHROW(values_of(one.value, {4}, 2, 2));
}

TEST_CASE("initial values are a function of seed, block number and canonical position", "[initialiser]") {
  const std::vector<float> values = values_of(Initialiser::he_normal, {2, 3}, 3, 2);
  CHECK(values == values_of(Initialiser::he_normal, {2, 3}, 3, 2));
  CHECK(values != values_of(Initialiser::he_normal, {2, 3}, 3, 2, 2));
  // The stored order [3, 2] of the same canonical [2, 3].
  const std::vector<float> transposed = values_of(Initialiser::he_normal, {2, 3}, 3, 2, 1, {1, 0});
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) CHECK(transposed[j * 2 + i] == values[i * 3 + j]);
  }
  // By the formula: √(2/3) times the first numbers of the stream of block 0.
  RandomStream random(1, Purpose::initial_weights, 0, 0);
  for (const float value : values) CHECK(value == static_cast<float>(std::sqrt(2.0 / 3)) * random.normal());
}

TEST_CASE("blocks are independent, and the floats between them are zero", "[initialiser]") {
  ParameterLayout layout;
  const Block block{.name = "a", .shape = {5}, .fan_in = 5, .fan_out = 5, .initialiser = Initialiser::he_normal};
  layout.add(block);
  layout.add(block);
  std::vector<float> vector(static_cast<std::size_t>(layout.size()), -1.0F);
  initialise(layout, 1, vector);
  CHECK_FALSE(std::equal(vector.begin(), vector.begin() + 5, vector.begin() + layout.blocks()[1].offset));
  for (std::size_t i = 5; i < 16; ++i) CHECK(vector[i] == 0);
}

test::LocalSquares unused;  // initial values need no sums

TEST_CASE("a number has its initial value wherever it lies", "[initialiser]") {
  const ParameterLayout layout = test::mixed_layout();
  std::vector<float> whole(static_cast<std::size_t>(layout.size()), -1.0F);
  initialise(layout, 5, whole);
  const ShardMap one = test::whole(layout, 1);
  for (const int ranks : {1, 2, 3, 4}) {
    for (const auto& [name, map] : test::divisions_of(layout, ranks)) {
      for (int rank = 0; rank < ranks; ++rank) {
        INFO(name << ", rank " << rank << " of " << ranks);
        std::vector<float> own(static_cast<std::size_t>(map.local(rank).size()), -1.0F);
        std::vector<float> expected(own.size());
        initialise(MapHolding(map, rank, unused), 5, own);
        test::for_each_held(map, rank, [&](test::Element element, std::size_t offset) {
          expected[offset] = whole[static_cast<std::size_t>(*test::offset_of(one, 0, element))];
        });
        CHECK(own == expected);
      }
    }
  }
}

TEST_CASE("… also where a rank holds every second column", "[initialiser]") {
  for (const Initialiser initialiser : {Initialiser::he_normal, Initialiser::uniform}) {
    ParameterLayout layout;
    layout.add({.name = "a", .shape = {3, 8}, .fan_in = 8, .fan_out = 3, .initialiser = initialiser});
    std::vector<float> whole(static_cast<std::size_t>(layout.size()));
    initialise(layout, 5, whole);
    std::vector<std::vector<Shard>> shards;
    for (const int rank : {0, 1}) {
      shards.push_back({{.block = 0, .box = {{.first = 0, .count = 3}, {.first = rank, .count = 4, .step = 2}}}});
    }
    const ShardMap map(layout, 1, shards);
    for (const int rank : {0, 1}) {
      std::vector<float> own(static_cast<std::size_t>(map.local(rank).size()));
      initialise(MapHolding(map, rank, unused), 5, own);
      for (std::size_t row = 0; row < 3; ++row) {
        for (std::size_t column = 0; column < 4; ++column) {
          CHECK(own[row * 4 + column] == whole[row * 8 + 2 * column + static_cast<std::size_t>(rank)]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace unisono::nn
