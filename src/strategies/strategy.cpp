#include "unisono/strategies/strategy.hpp"

#include <fmt/format.h>

#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

void describe_merge(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.choice(
      {.name = "merge", .meaning = "models that are updated in place: what becomes of a row that ranks changed"},
      settings.merge,
      {{"auto", "mean for linear models, sum for all others"},
       {"sum", "the ranks' changes add up, as one rank would have made them all"},
       {"mean", "the mean of the ranks that changed it"}});
  visitor.field({.name = "merge_after",
                 .meaning = "sum: a row is merged whenever all ranks together have touched it about so often, not only "
                            "with the next average; 0: only then",
                 .minimum = 0,
                 .maximum = 1 << 20},
                settings.merge_after);
}

void describe_averaging(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.field({.name = "period",
                 .meaning = "steps between averages; there is always one at the end of an epoch",
                 .unit = "steps",
                 .minimum = 1},
                settings.period);
  describe_merge(visitor, settings);
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

void describe_threads(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.field({.name = "threads",
                 .meaning = "threads of a rank that train on one θ at the same time; 0: the rank's fair share of the "
                            "cores that it may run on",
                 .minimum = 0,
                 .maximum = 4096},
                settings.threads);
}

void describe_hogwild(ConfigVisitor& visitor, StrategySettings& settings) {
  describe_threads(visitor, settings);
  visitor.choice({.name = "locking", .meaning = "what a thread locks while it updates"}, settings.locking,
                 {{"none", "nothing: lock-free, some updates are lost"},
                  {"striped", "the rows that the example touches, by 4096 locks: none is lost"},
                  {"global", "all of θ, by one lock"}});
  visitor.field({.name = "period",
                 .meaning = "several ranks: steps between averages; there is always one at the end of an epoch",
                 .unit = "steps",
                 .minimum = 1},
                settings.period);
  describe_merge(visitor, settings);
}

}  // namespace

void StrategySettings::describe(ConfigVisitor& visitor) {
  visitor.variant({.name = "kind", .meaning = "way of training in parallel"}, kind,
                  {{"allreduce", "all ranks step together on the mean gradient over the global batch", {}},
                   {"averaging", "ranks step on their own, and average their parameters now and then",
                    [this](ConfigVisitor& v) { describe_averaging(v, *this); }},
                   {"hogwild",
                    "threads of a rank train on one θ without waiting for each other; ranks average now and "
                    "then",
                    [this](ConfigVisitor& v) { describe_hogwild(v, *this); }},
                   {"serial", "one rank, one example after the other: what the others are compared with", {}},
                   {"stratified",
                    "factorization: blocks of ratings that share neither users nor items, on all threads and ranks at "
                    "the same time; each rank holds a part of the data and of θ",
                    [this](ConfigVisitor& v) { describe_threads(v, *this); }}});
}

std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings) {
  if (settings.kind == "allreduce") return make_allreduce(settings);
  if (settings.kind == "averaging") return make_averaging(settings);
  if (settings.kind == "hogwild") return make_hogwild(settings);
  if (settings.kind == "serial") return make_serial(settings);
  if (settings.kind == "stratified") return make_stratified(settings);
  throw ConfigError(fmt::format("strategy.kind is '{}'; it must be allreduce, averaging, hogwild, serial or stratified",
                                settings.kind));
}

}  // namespace unisono
