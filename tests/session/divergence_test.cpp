#include "run/training_observer.hpp"

#include <catch2/catch.hpp>
#include <limits>

namespace unisono::session {
namespace {

constexpr std::int64_t kStepsPerEpoch = 10;
const kernels::LossSums kFirst{.loss = 128, .examples = 64};  // 2 each

/// Of one example.
kernels::LossSums one(double loss) { return {.loss = loss, .examples = 1}; }

TEST_CASE("a loss diverges when every report of an epoch is above so many times the first one", "[divergence]") {
  DivergenceState state;
  Divergence divergence(10, kStepsPerEpoch, state);
  divergence.offer_first_loss(kFirst, 0, false);
  CHECK(divergence.first_loss() == 2);
  divergence.report(one(20), 4);  // ten times, not above
  CHECK_FALSE(divergence.is_above());
  for (const std::int64_t step : {8, 12}) divergence.report(one(21), step);
  CHECK(divergence.is_above());
  CHECK_FALSE(divergence.has_diverged(13));  // nine steps since the one that was well
  CHECK(divergence.has_diverged(14));
  divergence.report(one(3), 14);
  CHECK_FALSE(divergence.has_diverged(24));
}

TEST_CASE("a loss that is large from the first report on is so since the run began", "[divergence]") {
  DivergenceState state;
  Divergence divergence(10, kStepsPerEpoch, state);
  divergence.offer_first_loss(kFirst, 0, false);
  divergence.report(one(1e9), 10);
  CHECK(divergence.has_diverged(10));
}

TEST_CASE("the first loss is that of 16 examples, or of what there is before the first report", "[divergence]") {
  DivergenceState state;
  Divergence divergence(10, kStepsPerEpoch, state);
  divergence.offer_first_loss({.loss = 1, .examples = 15}, 0, false);
  CHECK(divergence.wants_first_loss());
  divergence.offer_first_loss({.loss = 1, .examples = 2}, 0, true);
  CHECK(divergence.first_loss() == 0.5);
  divergence.offer_first_loss(kFirst, 0, true);
  CHECK(divergence.first_loss() == 0.5);
}

TEST_CASE("losses that begin at nothing may become something", "[divergence]") {
  for (const double first : {0.0, -3.0, 1e-9}) {
    DivergenceState state;
    Divergence divergence(10, kStepsPerEpoch, state);
    divergence.offer_first_loss({.loss = 64 * first, .examples = 64}, 0, false);
    divergence.report(one(0.9), 10);
    CHECK_FALSE(divergence.is_above());
    divergence.report(one(1.1), 20);
    CHECK(divergence.is_above());
  }
}

TEST_CASE("large targets that come late make a large loss, and no divergence", "[divergence]") {
  DivergenceState state;
  Divergence divergence(10, kStepsPerEpoch, state);
  divergence.offer_first_loss(kFirst, 0, false);
  kernels::LossSums sums{.loss = 500, .examples = 1, .squared_error = 500, .target_squared_sum = 600, .values = 1};
  divergence.report(sums, 20);
  CHECK_FALSE(divergence.is_above());
  sums.target_squared_sum = 40;
  divergence.report(sums, 30);
  CHECK(divergence.is_above());
}

TEST_CASE("no number is above any, and with factor 0 nothing is", "[divergence]") {
  DivergenceState state, free_state;
  Divergence divergence(10, kStepsPerEpoch, state), free(0, kStepsPerEpoch, free_state);
  CHECK_FALSE(free.wants_first_loss());
  divergence.offer_first_loss(kFirst, 0, false);
  divergence.report(one(std::numeric_limits<double>::quiet_NaN()), 3);
  CHECK(divergence.is_above());
  free.report(one(1e30), 30);
  CHECK_FALSE(free.has_diverged(30));
}

TEST_CASE("a resumed run goes on with the loss that its checkpoint kept", "[divergence]") {
  DivergenceState state{.has_first_loss = true, .first_loss = 2, .below_until = 5};
  Divergence divergence(10, kStepsPerEpoch, state);
  CHECK_FALSE(divergence.wants_first_loss());
  divergence.report(one(21), 15);
  CHECK(divergence.has_diverged(15));
}

}  // namespace
}  // namespace unisono::session
