#include "vectors/word_scores.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace unisono::apply {
namespace {

TEST_CASE("only the order counts", "[spearman]") {
  CHECK(spearman({1, 2, 3, 4}, {10, 20, 500, 501}) == Approx(1));
  CHECK(spearman({1, 2, 3, 4}, {4, 3, 2, -100}) == Approx(-1));
  // Without ties ρ = 1 − 6 Σ d² / (n (n² − 1)): d = 1, 1, 0, 1, 1, so 1 − 24 / 120
  CHECK(spearman({1, 2, 3, 4, 5}, {2, 1, 3, 5, 4}) == Approx(0.8));
}

TEST_CASE("equal values share the mean of their ranks", "[spearman]") {
  // Ranks 0, 1½, 1½, 3 against 0, 1, 2, 3: Σxy = 4½, Σx² = 4½, Σy² = 5 about the mean
  CHECK(spearman({1, 2, 2, 3}, {1, 2, 3, 4}) == Approx(4.5 / std::sqrt(4.5 * 5)));
}

TEST_CASE("what never varies correlates with nothing", "[spearman]") {
  CHECK(std::isnan(spearman({1, 1, 1}, {1, 2, 3})));
  CHECK(std::isnan(spearman({}, {})));
}

}  // namespace
}  // namespace unisono::apply
