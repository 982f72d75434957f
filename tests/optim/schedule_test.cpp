#include "unisono/optim/schedule.hpp"

#include <catch2/catch.hpp>
#include <cmath>

#include "unisono/base/errors.hpp"
#include "value_of.hpp"

namespace unisono::optim {
namespace {

// Eleven steps, so that step 5 is the middle and step 10 the last. The formulas take fewer than ten double operations
// on values of at most 2: 1e-14 is far above their rounding.
constexpr std::int64_t kSteps = 11, kStepsPerEpoch = 2;
constexpr double kBase = 2, kTolerance = 1e-14;

double rate_at(const ScheduleSettings& settings, std::int64_t step) {
  return Schedule(settings, kBase, kSteps, kStepsPerEpoch).rate(step);
}

void check_rates(const ScheduleSettings& settings, double first, double middle, double last) {
  INFO(name_of(settings.kind, kScheduleKinds));
  CHECK(rate_at(settings, 0) == Approx(first).margin(kTolerance));
  CHECK(rate_at(settings, 5) == Approx(middle).margin(kTolerance));
  CHECK(rate_at(settings, 10) == Approx(last).margin(kTolerance));
  CHECK(rate_at(settings, 1000) == Approx(last).margin(kTolerance));
}

}  // namespace

TEST_CASE("every schedule has the values of its formula at the first, the middle and the last step", "[schedule]") {
  check_rates({.kind = ScheduleKind::constant}, 2, 2, 2);
  check_rates({.kind = ScheduleKind::linear}, 2, 1, 0);
  check_rates({.kind = ScheduleKind::linear, .final_factor = 0.25}, 2, 1.25, 0.5);
  check_rates({.kind = ScheduleKind::cosine}, 2, 1, 0);
  check_rates({.kind = ScheduleKind::cosine, .final_factor = 0.5}, 2, 1.5, 1);
  check_rates({.kind = ScheduleKind::polynomial}, 2, 0.5, 0);
  check_rates({.kind = ScheduleKind::polynomial, .final_factor = 0.5, .power = 3}, 2, 1.125, 1);
  check_rates({.kind = ScheduleKind::exponential, .exponential_final_factor = 0.01}, 2, 0.2, 0.02);
}

TEST_CASE("wsd keeps the base rate, and falls over the last share of the steps", "[schedule]") {
  // 0.4 · 11 rounds to 4 decaying steps: step 6 is the last one of the base rate, step 10 has f.
  ScheduleSettings settings{.kind = ScheduleKind::wsd, .decay_fraction = 0.4, .decay = FinalDecay::linear};
  check_rates(settings, 2, 2, 0);
  CHECK(rate_at(settings, 6) == 2);
  CHECK(rate_at(settings, 7) == Approx(1.5).margin(kTolerance));
  settings.final_factor = 0.5;  // 2 · (½ + ½ · ¾)
  CHECK(rate_at(settings, 7) == Approx(1.75).margin(kTolerance));
  check_rates(settings, 2, 2, 1);

  settings.decay = FinalDecay::sqrt;  // 2 · (½ + ½ · (1 − √¼))
  CHECK(rate_at(settings, 7) == Approx(1.5).margin(kTolerance));
  check_rates(settings, 2, 2, 1);
  settings.decay = FinalDecay::cosine;  // the middle of the fall: 2 · (½ + ½ · ½)
  CHECK(rate_at(settings, 8) == Approx(1.5).margin(kTolerance));
  check_rates(settings, 2, 2, 1);
}

TEST_CASE("wsd falls over as many steps as there are, but not within its warm-up", "[schedule]") {
  const auto wsd = [](double fraction, std::int64_t warmup) {
    return ScheduleSettings{
        .kind = ScheduleKind::wsd, .warmup_steps = warmup, .decay_fraction = fraction, .decay = FinalDecay::linear};
  };
  check_rates(wsd(1, 0), 2, 1, 0);  // as `linear`
  CHECK(rate_at(wsd(1, 6), 6) == 2);
  CHECK(rate_at(wsd(1, 6), 8) == Approx(1).margin(kTolerance));
  CHECK(rate_at(wsd(1e-6, 0), 9) == 2);  // never less than one step
  CHECK(rate_at(wsd(1e-6, 0), 10) == 0);
  CHECK(Schedule(wsd(0.2, 0), 2, 1, 1).rate(0) == 2);
}

TEST_CASE("the cosine is no line: a quarter of the way down it has lost a seventh", "[schedule]") {
  const Schedule schedule({.kind = ScheduleKind::cosine}, 1, 5, 1);
  CHECK(schedule.rate(1) == Approx((1 + std::sqrt(0.5)) / 2).margin(kTolerance));
}

TEST_CASE("milestones multiply the rate from the first step of their epoch on", "[schedule]") {
  const ScheduleSettings settings{.kind = ScheduleKind::step, .milestones = {1, 2.5}, .factor = 0.5};  // steps 2 and 5
  CHECK(rate_at(settings, 1) == 2);
  CHECK(rate_at(settings, 2) == 1);
  CHECK(rate_at(settings, 4) == 1);
  CHECK(rate_at(settings, 5) == 0.5);
  CHECK(rate_at(settings, 10) == 0.5);
}

TEST_CASE("warm-up rises in equal steps to the base rate, with which the curve begins", "[schedule]") {
  for (const char* kind : {"constant", "linear", "cosine", "polynomial", "exponential"}) {
    INFO(kind);
    const ScheduleSettings settings{.kind = value_of(kind, kScheduleKinds), .warmup_epochs = 1.5};  // three steps
    CHECK(rate_at(settings, 0) == Approx(0.5).margin(kTolerance));
    CHECK(rate_at(settings, 1) == Approx(1.0).margin(kTolerance));
    CHECK(rate_at(settings, 2) == Approx(1.5).margin(kTolerance));
    CHECK(rate_at(settings, 3) == Approx(2.0).margin(kTolerance));
  }
  // What remains after three steps are steps 3 … 10: the line is down to 0 in the last of them.
  CHECK(rate_at({.kind = ScheduleKind::linear, .warmup_epochs = 1.5}, 10) == Approx(0).margin(kTolerance));
  CHECK(rate_at({.kind = ScheduleKind::linear, .warmup_epochs = 1.5}, 4) == Approx(2 * 6.0 / 7).margin(kTolerance));
}

TEST_CASE("a warm-up in steps is that of as many epochs", "[schedule]") {
  for (const std::int64_t step : {0, 2, 3, 7, 10}) {
    CHECK(rate_at({.kind = ScheduleKind::cosine, .warmup_steps = 3}, step) ==
          rate_at({.kind = ScheduleKind::cosine, .warmup_epochs = 1.5}, step));
  }
}

TEST_CASE("a warm-up in steps that leaves no step of the base rate is refused", "[schedule]") {
  ScheduleSettings settings{.kind = ScheduleKind::wsd, .warmup_steps = 20};
  CHECK_THROWS_WITH(require_base_rate(settings, {.count = 2}, 10),
                    Catch::Contains("schedule.warmup_steps = 20 leaves none of the schedule's 20 steps"));
  CHECK_NOTHROW(require_base_rate(settings, {.count = 3}, 10));
  settings.epochs = 3;  // of which the run makes two
  CHECK_NOTHROW(require_base_rate(settings, {.count = 2}, 10));
  settings = {.kind = ScheduleKind::step, .warmup_steps = 10, .milestones = {1}};
  CHECK_THROWS_WITH(require_base_rate(settings, {.count = 3}, 10),
                    Catch::Contains("is step 10, in the warm-up of 10 steps"));
  settings.milestones = {1.1};
  CHECK_NOTHROW(require_base_rate(settings, {.count = 3}, 10));
}

TEST_CASE("a warm-up in epochs is held against a length in steps", "[schedule]") {
  ScheduleSettings settings{.kind = ScheduleKind::cosine, .warmup_epochs = 2};
  const Length run{.count = 20, .in_steps = true};
  CHECK_THROWS_WITH(require_base_rate(settings, run, 10),
                    Catch::Contains("schedule.warmup_epochs = 2, 20 steps, leaves none of the schedule's 20 steps"));
  settings.warmup_epochs = 1.9;
  CHECK_NOTHROW(require_base_rate(settings, run, 10));
  settings.steps = 19;  // of the run's 20
  CHECK_THROWS_WITH(require_base_rate(settings, run, 10), Catch::Contains("leaves none of the schedule's 19 steps"));
}

TEST_CASE("a schedule spans its own length, or the run", "[schedule]") {
  const Length run{.count = 7, .in_steps = true};
  CHECK(ScheduleSettings{}.span(run).steps(10) == 7);
  CHECK(ScheduleSettings{.epochs = 2}.span(run).steps(10) == 20);
  CHECK(ScheduleSettings{.steps = 3}.span(run).steps(10) == 3);
  CHECK(Length{.count = 1}.text() == "1 epoch");
  CHECK(Length{.count = 2000, .in_steps = true}.text() == "2,000 steps");
}

TEST_CASE("milestones count from the start of the run, warm-up included", "[schedule]") {
  const ScheduleSettings settings{.kind = ScheduleKind::step, .warmup_epochs = 1, .milestones = {2}, .factor = 0.5};
  CHECK(rate_at(settings, 3) == 2);
  CHECK(rate_at(settings, 4) == 1);
}

TEST_CASE("a milestone in the warm-up is refused, because no step would have the base rate", "[schedule]") {
  ScheduleSettings settings{.kind = ScheduleKind::step, .warmup_epochs = 3, .milestones = {2, 8}};
  CHECK_THROWS_WITH(require_base_rate(settings),
                    Catch::Contains("schedule.milestones = 2 lies in the warm-up of 3 epochs"));
  settings.milestones = {3, 8};
  CHECK_THROWS_AS(require_base_rate(settings), ConfigError);
  settings.milestones = {4, 8};
  CHECK_NOTHROW(require_base_rate(settings));
  settings.milestones = {0, 8};
  settings.warmup_epochs = 0;
  CHECK_NOTHROW(require_base_rate(settings));
  settings = {.kind = ScheduleKind::cosine, .warmup_epochs = 3, .milestones = {2}};
  CHECK_NOTHROW(require_base_rate(settings));
}

TEST_CASE("runs too short for their curve keep to sensible rates", "[schedule]") {
  CHECK(Schedule({.kind = ScheduleKind::linear}, 2, 1, 1).rate(0) == 2);  // a run of one step makes it at the base rate
  const Schedule all_warmup({.kind = ScheduleKind::linear, .warmup_epochs = 10}, 2, 4, 1);
  CHECK(all_warmup.rate(3) == Approx(2 * 4.0 / 11).margin(kTolerance));
}

}  // namespace unisono::optim
