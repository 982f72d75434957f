#include "unisono/session/weight_average.hpp"

#include <catch2/catch.hpp>

namespace unisono::session {

TEST_CASE("the first step alone makes the average, and early ones are soon forgotten", "[weight_average]") {
  CHECK(kept_share(0.999, 0, 1) == 0);
  CHECK(kept_share(0.999, 1, 2) == 1.0 / 10);
  CHECK(kept_share(0.999, 11, 12) == 11.0 / 20);
  CHECK(kept_share(0.999, 100000, 100001) == 0.999);
  CHECK(kept_share(0.5, 11, 12) == 0.5);
}

TEST_CASE("steps without an average count for the next one", "[weight_average]") {
  CHECK(kept_share(0.9, 1000, 1003) == Approx(0.9 * 0.9 * 0.9));
  CHECK(kept_share(0.9, 1, 3) == Approx(1.0 / 10 * 2 / 11));
  CHECK(kept_share(0.9, 0, 5) == 0);
}

}  // namespace unisono::session
