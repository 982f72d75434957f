#include <algorithm>
#include <functional>

#include "unisono/optim/schedule.hpp"

namespace unisono::optim {
namespace {

void describe_length(ConfigVisitor& visitor, std::int64_t& epochs) {
  visitor.field({.name = "epochs",
                 .meaning = "length of the schedule, counted from the start of the run; afterwards the rate stays at "
                            "its last value. 0: as long as the run, train.epochs",
                 .unit = "epochs",
                 .minimum = 0,
                 .maximum = 1 << 30},
                epochs);
}

void describe_final_factor(ConfigVisitor& visitor, double& final_factor) {
  visitor.field({.name = "final_factor",
                 .meaning = "learning rate of the last step, as a share of the base learning rate",
                 .minimum = 0,
                 .maximum = 1},
                final_factor);
}

void describe_step(ConfigVisitor& visitor, ScheduleSettings& settings) {
  const std::vector<double>& milestones = settings.milestones;
  visitor.field({.name = "milestones",
                 .meaning = "when the learning rate is multiplied by factor, counted from the start of the run",
                 .unit = "epochs",
                 .minimum = 0,
                 .required = true},
                settings.milestones);
  visitor.require("milestones", std::ranges::is_sorted(milestones, std::less_equal<>()),
                  "milestones must be strictly ascending; sort them and remove duplicates");
  visitor.field({.name = "factor",
                 .meaning = "factor that the learning rate is multiplied by at each milestone",
                 .minimum = 0,
                 .minimum_excluded = true},
                settings.factor);
}

void describe_fall(ConfigVisitor& visitor, ScheduleSettings& settings) {
  describe_final_factor(visitor, settings.final_factor);
  describe_length(visitor, settings.epochs);
}

void describe_polynomial(ConfigVisitor& visitor, ScheduleSettings& settings) {
  describe_final_factor(visitor, settings.final_factor);
  visitor.field({.name = "power", .meaning = "exponent of the polynomial", .minimum = 0, .minimum_excluded = true},
                settings.power);
  describe_length(visitor, settings.epochs);
}

void describe_exponential(ConfigVisitor& visitor, ScheduleSettings& settings) {
  visitor.field({.name = "final_factor",
                 .meaning = "learning rate of the last step, as a share of the base learning rate",
                 .minimum = 0,
                 .maximum = 1,
                 .minimum_excluded = true},
                settings.exponential_final_factor);
  describe_length(visitor, settings.epochs);
}

}  // namespace

void ScheduleSettings::describe(ConfigVisitor& visitor) {
  const auto of_this = [this](void (*fields)(ConfigVisitor&, ScheduleSettings&)) {
    return [this, fields](ConfigVisitor& inner) { fields(inner, *this); };
  };
  visitor.variant({.name = "kind", .meaning = "how the learning rate changes over the run"}, kind, kScheduleKinds,
                  {{ScheduleKind::step, of_this(describe_step)},
                   {ScheduleKind::linear, of_this(describe_fall)},
                   {ScheduleKind::cosine, of_this(describe_fall)},
                   {ScheduleKind::polynomial, of_this(describe_polynomial)},
                   {ScheduleKind::exponential, of_this(describe_exponential)}});
  visitor.field({.name = "warmup_epochs",
                 .meaning = "linear warm-up to the base learning rate, before the schedule begins",
                 .unit = "epochs",
                 .minimum = 0},
                warmup_epochs);
}

}  // namespace unisono::optim
