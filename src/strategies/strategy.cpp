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

void describe_consistency(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.variant({.name = "consistency", .meaning = "what a pull may miss of the other workers' pushes"},
                  settings.consistency,
                  {{"asynchronous", "anything: it is answered at once (Downpour)", {}},
                   {"bounded", "each worker's last steps, so many as `staleness` says (stale synchronous parallel)",
                    [&settings](ConfigVisitor& v) {
                      v.field({.name = "staleness",
                               .meaning = "how many of any worker's last steps a pull may miss; 0: bulk synchronous",
                               .unit = "steps",
                               .minimum = 0,
                               .maximum = 1 << 20},
                              settings.staleness);
                    }},
                   {"synchronous", "nothing: the servers make one update of all workers' pushes of a step", {}}});
  visitor.require("push_period", settings.consistency != "bounded" || settings.push_period <= settings.staleness + 1,
                  "push_period is more than staleness + 1, so every worker would wait for pushes that the others have "
                  "not made yet: lower it, or raise staleness");
  const bool plain = settings.pull_period == 1 && settings.push_period == 1 && settings.stale_rate == "whole" &&
                     settings.delay_compensation == 0;
  visitor.require("consistency", settings.consistency != "synchronous" || plain,
                  "synchronous workers exchange after every step, and no gradient is stale: remove pull_period, "
                  "push_period, stale_rate and delay_compensation");
}

void describe_servers(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.number_or({.name = "servers",
                     .meaning = "ranks that hold θ, a shard each, and do not train",
                     .minimum = 1,
                     .maximum = 1 << 20},
                    settings.servers, {"colocated", "every rank trains, and serves a shard with a thread of its own"});
}

void describe_elastic(ConfigVisitor& visitor, StrategySettings& settings) {
  describe_servers(visitor, settings);
  visitor.field({.name = "period",
                 .meaning = "steps of a worker between its meetings with the center",
                 .unit = "steps",
                 .minimum = 1},
                settings.period);
  visitor.field({.name = "elasticity",
                 .meaning = "how far a worker and the center go towards each other, as a share of their distance; 0: "
                            "0.9 divided by the number of workers",
                 .minimum = 0,
                 .maximum = 1},
                settings.elasticity);
}

void describe_parameter_server(ConfigVisitor& visitor, StrategySettings& settings) {
  describe_servers(visitor, settings);
  visitor.field({.name = "pull_period",
                 .meaning = "steps of a worker between its pulls; between them it goes on alone by plain SGD",
                 .unit = "steps",
                 .minimum = 1},
                settings.pull_period);
  visitor.field({.name = "push_period",
                 .meaning = "steps of a worker between its pushes, which carry the sum of their gradients",
                 .unit = "steps",
                 .minimum = 1},
                settings.push_period);
  visitor.field({.name = "prefetch",
                 .meaning = "pull while the step before computes: no waiting for θ, which then misses this worker's "
                            "own last push, too"},
                settings.prefetch);
  visitor.choice(
      {.name = "stale_rate", .meaning = "the learning rate of a gradient that is stale"}, settings.stale_rate,
      {{"whole", "as of any other"}, {"divided", "divided by its staleness in updates, where that is over 1"}});
  visitor.field({.name = "delay_compensation",
                 .meaning = "λ of g + λ g² (θ − θ_read), which corrects a stale gradient; 0: none",
                 .minimum = 0},
                settings.delay_compensation);
  visitor.field({.name = "warmup_steps",
                 .meaning = "the first steps of a run, which one worker makes alone",
                 .unit = "steps",
                 .minimum = 0},
                settings.warmup_steps);
  describe_consistency(visitor, settings);
  visitor.field(
      {.name = "record",
       .meaning = "write down in which order pushes and pulls reached the servers, in events.bin of the run's "
                  "folder: `unisono replay` repeats the run, bit for bit"},
      settings.record);
  visitor.require("record", !settings.record || settings.consistency != "synchronous",
                  "synchronous runs need no record: the same ranks make the same run again; remove it");
  visitor.choice(
      {.name = "merge", .meaning = "models that are updated in place: what a worker's change of a row does to it"},
      settings.merge,
      {{"auto", "mean for linear models, sum for all others"},
       {"sum", "it is added"},
       {"mean", "it is divided by the number of workers, and added"}});
}

}  // namespace

void StrategySettings::describe(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind", .meaning = "way of training in parallel"}, kind,
      {{"allreduce", "all ranks step together on the mean gradient over the global batch", {}},
       {"averaging", "ranks step on their own, and average their parameters now and then",
        [this](ConfigVisitor& v) { describe_averaging(v, *this); }},
       {"elastic_averaging", "workers train on their own, each drawn now and then towards a center that servers keep",
        [this](ConfigVisitor& v) { describe_elastic(v, *this); }},
       {"hogwild",
        "threads of a rank train on one θ without waiting for each other; ranks average now and "
        "then",
        [this](ConfigVisitor& v) { describe_hogwild(v, *this); }},
       {"parameter_server",
        "workers compute at their own pace on θ that servers hold in shards and update as gradients come",
        [this](ConfigVisitor& v) { describe_parameter_server(v, *this); }},
       {"serial", "one rank, one example after the other: what the others are compared with", {}},
       {"stratified",
        "factorization: blocks of ratings that share neither users nor items, on all threads and ranks at "
        "the same time; each rank holds a part of the data and of θ",
        [this](ConfigVisitor& v) { describe_threads(v, *this); }}});
}

std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings) {
  if (settings.kind == "allreduce") return make_allreduce(settings);
  if (settings.kind == "averaging") return make_averaging(settings);
  if (settings.kind == "elastic_averaging") return make_elastic_averaging(settings);
  if (settings.kind == "hogwild") return make_hogwild(settings);
  if (settings.kind == "parameter_server") return make_parameter_server(settings);
  if (settings.kind == "serial") return make_serial(settings);
  if (settings.kind == "stratified") return make_stratified(settings);
  throw ConfigError(
      fmt::format("strategy.kind is '{}'; it must be allreduce, averaging, elastic_averaging, "
                  "hogwild, parameter_server, serial or stratified",
                  settings.kind));
}

}  // namespace unisono
