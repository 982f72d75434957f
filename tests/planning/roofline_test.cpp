// The least time of a step's passes, by hand.
#include "bench/roofline.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <limits>

namespace unisono::planning {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr Index kFloats = 8192;  // 32 KiB

/// A cache of 128 KiB: 10 GB/s read, 5 written; memory: 1 and 0.5. One GFLOP/s.
const Roofline kMachine{1e9, {{"cache", 128 << 10, 10e9, 5e9}, {"memory", kInfinite, 1e9, 0.5e9}}};

nn::StepRange workspace(Index first, Index last) {
  return {nn::StepVector::workspace, {first * kFloats, last * kFloats}};
}

nn::LayerWork pass(int node, std::vector<nn::StepRange> reads, std::vector<nn::StepRange> writes, double flops = 0) {
  return {.node = node,
          .layer = "layer",
          .is_backward = false,
          .flops = flops,
          .reads = std::move(reads),
          .writes = std::move(writes)};
}

TEST_CASE("what fits into the cache comes from there, in every step", "[roofline]") {
  const auto floors = floors_of({pass(0, {workspace(0, 1)}, {workspace(1, 2)})}, 0, 0, kMachine);
  REQUIRE(floors.size() == 2);
  CHECK(floors[0].bytes == 2 * 32768);
  CHECK(floors[0].memory_seconds == Approx(32768 / 5e9));  // it reads at the same time, and faster
  CHECK(floors[0].bound() == "cache");
  CHECK(floors[1].layer == "update");
  CHECK(floors[1].seconds() == 0);
}

TEST_CASE("what other passes have displaced comes from memory", "[roofline]") {
  // Until the first 32 KiB are read again, 256 KiB are touched.
  const auto floors =
      floors_of({pass(0, {workspace(0, 1)}, {}), pass(1, {workspace(1, 4)}, {workspace(4, 8)})}, 0, 0, kMachine);
  CHECK(floors[0].memory_seconds == Approx(32768 / 1e9));
  CHECK(floors[1].memory_seconds == Approx(4 * 32768 / 0.5e9));
  CHECK(floors[1].bound() == "memory");
}

TEST_CASE("a pass that writes what it has read writes it back to where it was", "[roofline]") {
  const auto floors = floors_of({pass(0, {workspace(0, 8)}, {workspace(0, 8)})}, 0, 0, kMachine);
  CHECK(floors[0].memory_seconds == Approx(8 * 32768 / 0.5e9));
}

TEST_CASE("arithmetic is the bound where it takes longer", "[roofline]") {
  const auto floors = floors_of({pass(0, {workspace(0, 1)}, {}, 1e6)}, 0, 0, kMachine);
  CHECK(floors[0].seconds() == Approx(1e-3));
  CHECK(floors[0].bound() == "arithmetic");
}

TEST_CASE("what is computed anew is part of its backward pass", "[roofline]") {
  nn::LayerWork again = pass(0, {workspace(0, 1)}, {workspace(1, 2)}, 1e6), backward = again;
  again.is_backward = backward.is_backward = true;
  const auto floors = floors_of({pass(0, {workspace(0, 1)}, {}, 1e6), again, backward}, 0, 0, kMachine);
  REQUIRE(floors.size() == 3);
  CHECK(floors[1].flops == 2e6);
  CHECK(floors[1].bytes == 4 * 32768);
  CHECK(floors[1].seconds() == Approx(2e-3));
}

TEST_CASE("an update reads g, and reads and writes parameters and the optimizer's vectors", "[roofline]") {
  const double bytes = 64.0 * 32768;
  for (const int states : {0, 1, 2}) {
    const auto floors = floors_of({}, 64 * kFloats, states, kMachine);
    REQUIRE(floors.size() == 1);
    CHECK(floors[0].bytes == bytes * (3 + 2 * states));
    CHECK(floors[0].seconds() == Approx(std::max(bytes * (2 + states) / 1e9, bytes * (1 + states) / 0.5e9)));
  }
  // A backward pass that makes the step of half of them reads and writes these, and reads no g.
  nn::LayerWork backward = pass(0, {}, {});
  backward.is_backward = true;
  backward.step = {16 * kFloats, 48 * kFloats};
  const auto floors = floors_of({backward}, 64 * kFloats, 1, kMachine);
  REQUIRE(floors.size() == 2);
  CHECK(floors[0].bytes == bytes / 2 * 4);
  CHECK(floors[1].bytes == bytes / 2 * 5);
  // Small vectors stay in the cache.
  const nn::StepRange gradient{nn::StepVector::gradient, {0, 2 * kFloats}};
  CHECK(floors_of({pass(0, {}, {gradient})}, 2 * kFloats, 0, kMachine)[1].bound() == "cache");
}

}  // namespace
}  // namespace unisono::planning
