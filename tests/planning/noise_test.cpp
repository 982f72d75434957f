#include "plan/noise.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace unisono::planning {
namespace {

TEST_CASE("a gradient's noise follows from the norms of small and large steps") {
  // |G|² = 4 and tr Σ = 36: steps of 2 examples have 4 + 36/2, of 72 examples 4 + 36/72.
  const GradientNoise noise = noise_of(22, 2, 4.5, 72);
  CHECK(noise.squared_norm == Approx(4));
  CHECK(noise.variance == Approx(36));
  CHECK(noise.scale() == Approx(9));
  CHECK(noise.worth(9) == Approx(0.5));
  CHECK(noise.worth(1) == Approx(0.9));
}

TEST_CASE("where noise hides the gradient, no step is too large") {
  const GradientNoise noise = noise_of(22, 2, 8.5, 8);  // 4 + 36/8: more noise than signal
  CHECK(std::isinf(noise.scale()));
  CHECK(noise.worth(1e6) == 1);
  CHECK(noise.json().at("scale").is_null());
  CHECK(noise.text(64).find("above 8 examples") != std::string::npos);
}

TEST_CASE("without noise, a step of one example is as good as any") {
  const GradientNoise noise = noise_of(4, 1, 4, 64);
  CHECK(noise.scale() == 0);
  CHECK(noise.worth(1) == 0);
}

}  // namespace
}  // namespace unisono::planning
