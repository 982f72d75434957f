#include "exchange/reproducible_sum.hpp"

#include <catch2/catch.hpp>

namespace unisono::parallel {
namespace {

using Addition = LeafPlan::Addition;

TEST_CASE("a rank of one of one adds right children level by level", "[reproducible]") {
  const LeafPlan plan = plan_leaves(comm::SumTree(4), {0, 4}, 1);
  REQUIRE(plan.leaves.size() == 4);
  CHECK(plan.vectors == 3);
  const auto is = [&](std::size_t leaf, int target, const std::vector<Addition>& additions) {
    CHECK(plan.leaves[leaf].target == target);
    CHECK(plan.leaves[leaf].additions == additions);
  };
  is(0, 0, {});                // g
  is(1, 1, {{0, 1}});          // g += right child of level 0
  is(2, 2, {});                // the right child of level 1
  is(3, 1, {{2, 1}, {0, 2}});  // is complete with leaf 3
}

TEST_CASE("a rank with two subtrees holds the last one in g", "[reproducible]") {
  const LeafPlan plan = plan_leaves(comm::SumTree(8), {2, 5}, 2);  // (2 + 3) and 4
  REQUIRE(plan.leaves.size() == 3);
  CHECK(plan.leaves[0].target == 1);
  CHECK(plan.leaves[1].target == 2);
  CHECK(plan.leaves[1].additions == std::vector<Addition>{{1, 2}});
  CHECK(plan.leaves[2].target == 0);
  CHECK(plan.leaves[2].additions.empty());
}

}  // namespace
}  // namespace unisono::parallel
