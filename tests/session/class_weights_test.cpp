#include "machine/model_parts.hpp"

#include <catch2/catch.hpp>

namespace unisono::session {
namespace {

TEST_CASE("balanced weights are n / (K n_k), over the classes that have examples", "[weights]") {
  // compute_class_weight("balanced", classes=[0, 1, 2], y) of 6, 3 and 1 examples: 10/18, 10/9, 10/3.
  const std::vector<std::int64_t> counts = {6, 3, 1};
  CHECK(balanced_weights(counts) == std::vector<float>{10.0F / 18, 10.0F / 9, 10.0F / 3});
  // Of a class without examples nothing is weighed: the mean over the others' examples is 1.
  const std::vector<std::int64_t> with_empty = {3, 0, 1};
  CHECK(balanced_weights(with_empty) == std::vector<float>{4.0F / 6, 1, 2});
}

}  // namespace
}  // namespace unisono::session
