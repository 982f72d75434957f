#include "unisono/jobs/jobs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

namespace unisono::jobs {
namespace {

/// A loss that falls from 2 to 0.5 around the rate 0.01, and grows without end around 1.
RateRange range_test(double explosion) {
  RateRange range;
  for (int step = 0; step < 300; ++step) {
    const double rate = 1e-5 * std::pow(10, step / 50.0);  // to 10
    const double loss = 0.5 + 1.5 / (1 + std::pow(rate / 0.01, 2)) + std::pow(rate / explosion, 2);
    if (add_loss(range, rate, loss)) break;
  }
  find_rates(range);
  return range;
}

TEST_CASE("the loss falls fastest where its curve is steepest, and explodes behind its minimum", "[find_rate]") {
  const RateRange range = range_test(1);
  CHECK(range.exploded);
  // The average of the last 20 or so losses lags behind by half a decade at 50 steps a decade.
  CHECK(range.steepest_at > 0.005);
  CHECK(range.steepest_at < 0.05);
  CHECK(range.lowest_loss_at > range.steepest_at);
  CHECK(range.lowest_loss_at < 1);
  CHECK(range.points.back().rate < 10);
  CHECK(range.suggestion() == Approx(range.lowest_loss_at / 10));
}

TEST_CASE("the average of equal losses is that loss, from the first one on", "[find_rate]") {
  RateRange range;
  for (int step = 1; step < 50; ++step) CHECK_FALSE(add_loss(range, 0.001 * step, 3));
  for (const RatePoint& point : range.points) CHECK(point.smoothed == Approx(3));
}

TEST_CASE("a loss that is no number ends the test, and one that never falls gives no suggestion", "[find_rate]") {
  RateRange range;
  CHECK(add_loss(range, 0.1, std::numeric_limits<double>::quiet_NaN()));
  CHECK(range.points.empty());
  find_rates(range);
  CHECK(range.suggestion() == 0);

  RateRange rising;
  for (int step = 0; step < 100; ++step) add_loss(rising, 1e-3 * std::pow(1.1, step), 1 + 0.01 * step);
  find_rates(rising);
  CHECK(rising.suggestion() == 0);
  CHECK_FALSE(rising.exploded);
}

TEST_CASE("the files hold every step", "[find_rate]") {
  const RateRange range = range_test(1);
  const std::string csv = rate_csv(range);
  CHECK(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')) == range.points.size() + 1);
  CHECK(csv.starts_with("step,learning_rate,loss,smoothed_loss\n1,1e-05,2,2\n"));
  CHECK(rate_picture(range, "a & b").find("a &amp; b: loss at rising learning rates") != std::string::npos);
  CHECK(rate_picture({}, "none").find("<svg") != std::string::npos);
}

}  // namespace
}  // namespace unisono::jobs
