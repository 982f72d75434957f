#include "run/checkpoint_pace.hpp"

#include <catch2/catch.hpp>
#include <cmath>

namespace unisono::session {
namespace {

/// Expected seconds that a job of `work` seconds takes: Daly 2006, equation 13, with restarts that take no time.
double expected_seconds(double interval, double cost, double between_failures, double work) {
  return between_failures * (std::exp((interval + cost) / between_failures) - 1) * work / interval;
}

TEST_CASE("no other interval between checkpoints loses less time", "[checkpoint_pace]") {
  for (const double cost : {0.1, 5.0, 60.0, 600.0}) {
    for (const double between_failures : {3600.0, 86400.0, 2.6e6}) {
      const double best = seconds_between_checkpoints(cost, between_failures);
      const auto lost = [&](double interval) { return expected_seconds(interval, cost, between_failures, 1); };
      INFO(cost << " s, " << between_failures << " s: " << best << " s");
      for (const double factor : {0.5, 0.8, 0.95, 1.05, 1.25, 2.0}) CHECK(lost(best) < lost(factor * best));
    }
  }
  CHECK(seconds_between_checkpoints(10, 72000) == Approx(1200).epsilon(0.01));  // Young: √(2 · 10 · 72000)
  CHECK(seconds_between_checkpoints(100, 40) == 40);
}

/// A clock that a test sets.
struct SetClock final : Clock {
  double now = 0;
  double seconds() const override { return now; }
};

TEST_CASE("the pace of checkpoints follows from what they have cost", "[checkpoint_pace]") {
  SetClock clock;
  CheckpointPace pace(72000, clock);
  CHECK_FALSE(pace.is_due());
  clock.now = 1.1;
  CHECK(pace.is_due());
  pace.note(0);  // its cost is not known yet
  CHECK(pace.cost() == 0);
  clock.now += 9;
  CHECK_FALSE(pace.is_due());
  clock.now += 2;
  CHECK(pace.is_due());
  pace.note(10);
  CHECK(pace.cost() == 10);
  clock.now += 1100;
  CHECK_FALSE(pace.is_due());
  clock.now += 100;
  CHECK(pace.is_due());
  pace.note(12);
  CHECK(pace.cost() == 6);

  CheckpointPace never(0, clock);
  clock.now += 1e9;
  CHECK_FALSE(never.is_due());
}

}  // namespace
}  // namespace unisono::session
