#include "unisono/strategies/strategy.hpp"

#include <fmt/format.h>

#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

void describe_averaging(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.field({.name = "period",
                 .meaning = "steps between averages; there is always one at the end of an epoch",
                 .unit = "steps",
                 .minimum = 1},
                settings.period);
  visitor.choice({.name = "optimizer_state", .meaning = "what an average does to the optimizer's state"},
                 settings.optimizer_state,
                 {{"average", "averaged like the parameters"},
                  {"keep", "every rank keeps its own"},
                  {"reset", "zero, as at the start"}});
  visitor.field({.name = "allreduce_epochs",
                 .meaning = "train with allreduce first (post-local SGD)",
                 .unit = "epochs",
                 .minimum = 0,
                 .maximum = 1e9},
                settings.allreduce_epochs);
}

}  // namespace

void StrategySettings::describe(ConfigVisitor& visitor) {
  visitor.variant({.name = "kind", .meaning = "way of training in parallel"}, kind,
                  {{"allreduce", "all ranks step together on the mean gradient over the global batch", {}},
                   {"averaging", "ranks step on their own, and average their parameters now and then",
                    [this](ConfigVisitor& v) { describe_averaging(v, *this); }}});
}

std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings) {
  if (settings.kind == "allreduce") return make_allreduce(settings);
  if (settings.kind == "averaging") return make_averaging(settings);
  throw ConfigError(fmt::format("strategy.kind is '{}'; it must be allreduce or averaging", settings.kind));
}

}  // namespace unisono
