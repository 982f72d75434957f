#include "unisono/settings/control_settings.hpp"

namespace unisono::settings {
namespace {

constexpr Named<data::Split> kSplits[] = {
    {data::Split::validation, "validation", "the validation set"},
    {data::Split::test, "test", "the test set, which is then no longer an independent test of the result"},
    {data::Split::train, "train", "the mean over the training steps of the epoch"}};

void describe_criterion(ConfigVisitor& visitor, std::string& metric, data::Split& on) {
  visitor.field({.name = "metric",
                 .meaning = "metric that models are compared by, such as loss, accuracy or rmse; auto: accuracy where "
                            "the model has it, else loss"},
                metric);
  visitor.choice({.name = "on", .meaning = "examples that the metric is taken from"}, on, kSplits);
}

}  // namespace

void BestSettings::describe(ConfigVisitor& visitor) { describe_criterion(visitor, metric, on); }

void EarlyStoppingSettings::describe(ConfigVisitor& visitor) {
  describe_criterion(visitor, metric, on);
  visitor.field({.name = "patience",
                 .meaning = "the run stops after so many evaluations in a row without an improvement; see "
                            "train.evaluate_every_epochs. 0: it never stops early",
                 .unit = "evaluations",
                 .minimum = 0,
                 .maximum = 1 << 30},
                patience);
  visitor.field({.name = "min_delta",
                 .meaning = "a metric has improved if it is better than the best value so far by more than this",
                 .minimum = 0},
                min_delta);
}

}  // namespace unisono::settings
