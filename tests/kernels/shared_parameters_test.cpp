#include <catch2/catch.hpp>
#include <vector>

#include "unisono/kernels/in_place.hpp"

namespace unisono::kernels {

TEST_CASE("what nobody changed since it was read becomes what was computed, bit for bit", "[in_place]") {
  // 1 + (0.1 − 1) is not 0.1 in floats.
  const std::vector<float> before = {1, 2}, after = {0.1F, 2.5F};
  std::vector<float> shared = before, own(2);
  read_shared(shared.data(), own.data(), 2);
  CHECK(own == before);
  add_to_shared(before.data(), after.data(), shared.data(), 2);
  CHECK(shared == after);
}

TEST_CASE("… and what somebody changed is added to", "[in_place]") {
  const std::vector<float> before = {1, 2}, after = {1.5F, 1};
  std::vector<float> shared = {3, 2};
  add_to_shared(before.data(), after.data(), shared.data(), 2);
  CHECK(shared == std::vector<float>{3.5F, 1});
}

}  // namespace unisono::kernels
