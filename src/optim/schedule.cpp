// Learning rates over a schedule of n steps, the first w of which warm up: warmup_steps, or warmup_epochs · steps per
// epoch.
//     s < w          rate(s) = base · (s + 1) / (w + 1)          Goyal et al., "Accurate, large minibatch SGD", 2017
//     s ≥ w          rate(s) = base · curve,  with x = (s − w) / (n − 1 − w) from 0 to 1 at the last step, s = n − 1
//
//     constant       1
//     step           factor^k                                    k: milestones reached, in epochs since the start
//     linear         1 − (1 − f) x                               f: final_factor
//     cosine         f + (1 − f) (1 + cos πx) / 2                Loshchilov, Hutter, "SGDR", ICLR 2017
//     polynomial     f + (1 − f) (1 − x)^power
//     exponential    f^x
//     wsd            f + (1 − f) d(z)                            Hu et al., "MiniCPM", COLM 2024
//                    z: share of the last m = decay_fraction · n steps, from 0 at s = n − 1 − m (or w, if that is
//                    later) to 1 at s = n − 1; 0 before.  d(z) = 1 − √z, 1 − z or (1 + cos πz) / 2; the first is the
//                    best of those that Hägele et al. compare, "Scaling laws … beyond fixed training durations",
//                    NeurIPS 2024
// A schedule that ends within its warm-up never leaves it. After its end, s ≥ n, the rate stays as it was at s = n − 1,
// except that `step` continues with its milestones.
#include "unisono/optim/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "unisono/base/errors.hpp"

namespace unisono::optim {
namespace {

std::int64_t steps_of(double epochs, std::int64_t steps_per_epoch) {
  return std::llround(std::min(epochs * static_cast<double>(steps_per_epoch), 0x1p53));
}

void describe_length(ConfigVisitor& visitor, ScheduleSettings& settings) {
  visitor.field({.name = "epochs",
                 .meaning = "length of the schedule, counted from the start of the run; afterwards the rate stays at "
                            "its last value. 0, and no steps: as long as the run",
                 .unit = "epochs",
                 .range = at_least(0).at_most(1 << 30)},
                settings.epochs);
  visitor.field({.name = "steps",
                 .meaning = "the same in steps, in place of epochs",
                 .unit = "steps",
                 .range = at_least(0).at_most(kMostSteps)},
                settings.steps);
  visitor.require("steps", settings.steps == 0 || settings.epochs == 0,
                  "epochs and steps both say how long the schedule is; remove one of them");
}

void describe_final_factor(ConfigVisitor& visitor, double& final_factor) {
  visitor.field({.name = "final_factor",
                 .meaning = "learning rate of the last step, as a share of the base learning rate",
                 .range = at_least(0).at_most(1)},
                final_factor);
}

void describe_step(ConfigVisitor& visitor, ScheduleSettings& settings) {
  const std::vector<double>& milestones = settings.milestones;
  visitor.field({.name = "milestones",
                 .meaning = "when the learning rate is multiplied by factor, counted from the start of the run",
                 .unit = "epochs",
                 .range = at_least(0),
                 .required = true},
                settings.milestones);
  visitor.require("milestones", std::ranges::is_sorted(milestones, std::less_equal<>()),
                  "milestones must be strictly ascending; sort them and remove duplicates");
  visitor.field({.name = "factor",
                 .meaning = "factor that the learning rate is multiplied by at each milestone",
                 .range = above(0)},
                settings.factor);
}

void describe_fall(ConfigVisitor& visitor, ScheduleSettings& settings) {
  describe_final_factor(visitor, settings.final_factor);
  describe_length(visitor, settings);
}

void describe_polynomial(ConfigVisitor& visitor, ScheduleSettings& settings) {
  describe_final_factor(visitor, settings.final_factor);
  visitor.field({.name = "power", .meaning = "exponent of the polynomial", .range = above(0)}, settings.power);
  describe_length(visitor, settings);
}

void describe_wsd(ConfigVisitor& visitor, ScheduleSettings& settings) {
  visitor.field({.name = "decay_fraction",
                 .meaning = "share of the schedule's steps in which the rate falls, at its end",
                 .range = above(0).at_most(1)},
                settings.decay_fraction);
  visitor.choice({.name = "decay", .meaning = "how it falls, over a share x of these steps"}, settings.decay,
                 kFinalDecays);
  describe_fall(visitor, settings);
}

void describe_exponential(ConfigVisitor& visitor, ScheduleSettings& settings) {
  visitor.field({.name = "final_factor",
                 .meaning = "learning rate of the last step, as a share of the base learning rate",
                 .range = above(0).at_most(1)},
                settings.exponential_final_factor);
  describe_length(visitor, settings);
}

/// The factor between 1 and 0 of the last part of `wsd`. \param x share of its steps
double final_decay(FinalDecay kind, double x) {
  switch (kind) {
    case FinalDecay::sqrt:
      return 1 - std::sqrt(x);
    case FinalDecay::linear:
      return 1 - x;
    case FinalDecay::cosine:
      return (1 + std::cos(std::numbers::pi * x)) / 2;
  }
  return 1;
}

void describe_warmup(ConfigVisitor& visitor, ScheduleSettings& settings) {
  visitor.field({.name = "warmup_epochs",
                 .meaning = "linear warm-up to the base learning rate, before the schedule begins",
                 .unit = "epochs",
                 .range = at_least(0)},
                settings.warmup_epochs);
  visitor.field({.name = "warmup_steps",
                 .meaning = "the same in steps, in place of warmup_epochs",
                 .unit = "steps",
                 .range = at_least(0).at_most(kMostSteps)},
                settings.warmup_steps);
  visitor.require("warmup_steps", settings.warmup_steps == 0 || settings.warmup_epochs == 0,
                  "warmup_epochs and warmup_steps both say how long the warm-up is; remove one of them");
}

std::int64_t warmup_of(const ScheduleSettings& settings, std::int64_t steps_per_epoch) {
  return settings.warmup_steps > 0 ? settings.warmup_steps : steps_of(settings.warmup_epochs, steps_per_epoch);
}

}  // namespace

std::string Length::text() const { return count_of(count, in_steps ? "step" : "epoch"); }

Length ScheduleSettings::span(const Length& run) const {
  if (epochs > 0) return {.count = epochs};
  return steps > 0 ? Length{.count = steps, .in_steps = true} : run;
}

void require_base_rate(const ScheduleSettings& settings, const Length& run, std::int64_t steps_per_epoch) {
  const Length span = settings.span(run);
  const bool tells_in_steps = settings.warmup_steps > 0 || (span.in_steps && settings.warmup_epochs > 0);
  if (!tells_in_steps || settings.growth > 0) return;
  const std::int64_t steps = span.steps(steps_per_epoch), warmup = warmup_of(settings, steps_per_epoch);
  if (warmup >= steps) {
    const std::string given =
        settings.warmup_steps > 0
            ? fmt::format("schedule.warmup_steps = {}", settings.warmup_steps)
            : fmt::format("schedule.warmup_epochs = {:g}, {},", settings.warmup_epochs, count_of(warmup, "step"));
    throw ConfigError(fmt::format(
        "{} leaves none of the schedule's {}, so that the learning rate would never reach optimizer.learning_rate: "
        "set a shorter warm-up, or train for more {}",
        given, count_of(steps, "step"), span.unit()));
  }
  if (settings.warmup_steps == 0) return;  // milestones and it are both in epochs
  if (settings.kind != ScheduleKind::step || settings.milestones.empty()) return;
  const std::int64_t first = steps_of(settings.milestones.front(), steps_per_epoch);
  if (first > settings.warmup_steps) return;
  throw ConfigError(fmt::format(
      "schedule.milestones = {:g} is step {}, in the warm-up of {} (schedule.warmup_steps), so that the learning rate "
      "would never reach optimizer.learning_rate: milestones count from the start of the run; set later ones, or a "
      "shorter warm-up",
      settings.milestones.front(), first, count_of(settings.warmup_steps, "step")));
}

void require_base_rate(const ScheduleSettings& settings) {
  const bool has_both = settings.kind == ScheduleKind::step && settings.warmup_epochs > 0 && settings.growth == 0;
  if (!has_both || settings.milestones.empty()) return;
  const double first = settings.milestones.front();
  if (first > settings.warmup_epochs) return;
  throw ConfigError(fmt::format(
      "schedule.milestones = {:g} lies in the warm-up of {:g} epochs (schedule.warmup_epochs), so that the "
      "learning rate would never reach optimizer.learning_rate: milestones count from the start of the run; "
      "set later ones, or a shorter warm-up",
      first, settings.warmup_epochs));
}

Schedule::Schedule(const ScheduleSettings& settings, double base_rate, std::int64_t total_steps,
                   std::int64_t steps_per_epoch)
    : settings_(settings),
      base_rate_(base_rate),
      total_steps_(total_steps),
      steps_per_epoch_(steps_per_epoch),
      warmup_steps_(warmup_of(settings, steps_per_epoch)) {}

double Schedule::rate(std::int64_t step) const {
  if (settings_.growth > 0) return base_rate_ * std::pow(settings_.growth, static_cast<double>(step));
  if (step < warmup_steps_) {
    return base_rate_ * static_cast<double>(step + 1) / static_cast<double>(warmup_steps_ + 1);
  }
  return base_rate_ * curve(step);
}

double Schedule::curve(std::int64_t step) const {
  const double decaying = static_cast<double>(std::max<std::int64_t>(1, total_steps_ - 1 - warmup_steps_));
  const double x = std::min(1.0, static_cast<double>(step - warmup_steps_) / decaying);
  const double f = settings_.final_factor;

  switch (settings_.kind) {
    case ScheduleKind::constant:
      return 1;
    case ScheduleKind::step: {
      const auto reached = std::ranges::count_if(
          settings_.milestones, [&](double epochs) { return step >= steps_of(epochs, steps_per_epoch_); });
      return std::pow(settings_.factor, static_cast<double>(reached));
    }
    case ScheduleKind::linear:
      return 1 - (1 - f) * x;
    case ScheduleKind::cosine:
      return f + (1 - f) * (1 + std::cos(std::numbers::pi * x)) / 2;
    case ScheduleKind::polynomial:
      return f + (1 - f) * std::pow(1 - x, settings_.power);
    case ScheduleKind::exponential:
      return std::pow(settings_.exponential_final_factor, x);
    case ScheduleKind::wsd:
      return f + (1 - f) * final_decay(settings_.decay, share_of_decay(step));
  }
  return 1;
}

double Schedule::share_of_decay(std::int64_t step) const {
  const std::int64_t last = total_steps_ - 1;
  const auto decaying = static_cast<std::int64_t>(
      std::max(1.0, std::round(settings_.decay_fraction * static_cast<double>(total_steps_))));
  const std::int64_t stable = std::max(warmup_steps_, last - decaying);  // the last step of the base rate
  if (step <= stable) return 0;
  return step >= last ? 1 : static_cast<double>(step - stable) / static_cast<double>(last - stable);
}

void ScheduleSettings::describe(ConfigVisitor& visitor) {
  const auto of_this = [this](void (*fields)(ConfigVisitor&, ScheduleSettings&)) {
    return [this, fields](ConfigVisitor& inner) { fields(inner, *this); };
  };
  visitor.variant({.name = "kind", .meaning = "how the learning rate changes over the run"}, kind, kScheduleKinds,
                  {{ScheduleKind::step, of_this(describe_step)},
                   {ScheduleKind::linear, of_this(describe_fall)},
                   {ScheduleKind::cosine, of_this(describe_fall)},
                   {ScheduleKind::polynomial, of_this(describe_polynomial)},
                   {ScheduleKind::exponential, of_this(describe_exponential)},
                   {ScheduleKind::wsd, of_this(describe_wsd)}});
  describe_warmup(visitor, *this);
}

}  // namespace unisono::optim
