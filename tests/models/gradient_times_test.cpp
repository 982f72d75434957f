#include "unisono/models/gradient_times.hpp"

#include <catch2/catch.hpp>

namespace unisono::models {
namespace {

LayerSummary layer(Index parameters, double flops) {
  LayerSummary summary;
  summary.parameters = parameters;
  summary.flops_per_example = flops;
  return summary;
}

TEST_CASE("gradients are final from the last layer to the first, after as much time as their flops take") {
  const GradientTimes times({layer(10, 300), layer(0, 100), layer(5, 200)});
  CHECK(times.of(0) == 1);
  CHECK(times.of(9) == 1);
  CHECK(times.of(10) == Approx(1.0 / 3 + 2.0 / 3 * 200 / 600));
  CHECK(times.of(14) == times.of(10));
}

TEST_CASE("of layers whose flops are unknown, gradients are final at the end") {
  CHECK(GradientTimes({layer(10, 0)}).of(3) == 1);
  CHECK(GradientTimes({}).of(0) == 1);
}

}  // namespace
}  // namespace unisono::models
