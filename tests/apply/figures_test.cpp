#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "figures/figures.hpp"

namespace unisono::apply {
namespace {

TEST_CASE("precision, recall and NDCG of a list with places left empty", "[figures]") {
  const std::vector<std::int32_t> items = {4, 9, 2, -1};
  const std::vector<std::uint32_t> relevant = {2, 3, 4};
  const TopFigures figures = top_figures(items, relevant, 4);
  CHECK(figures.precision == 0.5);
  CHECK(figures.recall == Approx(2.0 / 3));
  CHECK(figures.ndcg == Approx((1 + 0.5) / (1 + 1 / std::log2(3.0) + 0.5)));
  CHECK(top_figures(items, relevant, 1).ndcg == 1);
}

}  // namespace
}  // namespace unisono::apply
