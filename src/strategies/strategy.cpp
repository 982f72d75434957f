#include "unisono/strategies/strategy.hpp"

#include <fmt/format.h>

#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

void describe_merge(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.choice({.name = "merge",
                  .meaning = "for models that are updated in place: how a row is merged that several ranks changed"},
                 settings.merge,
                 {{"auto", "mean for linear models, sum for all others"},
                  {"sum", "the changes of all ranks are summed, as if one rank had made them all"},
                  {"mean", "mean over the ranks that changed the row"}});
  visitor.field({.name = "merge_after",
                 .meaning = "with merge = \"sum\": a row is also merged between two averages, whenever all ranks "
                            "together have touched it about this many times; 0: only with the averages",
                 .minimum = 0,
                 .maximum = 1 << 20},
                settings.merge_after);
}

void describe_averaging(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.field({.name = "period",
                 .meaning = "steps between two averages; parameters are also averaged at the end of every epoch",
                 .unit = "steps",
                 .minimum = 1},
                settings.period);
  describe_merge(visitor, settings);
  visitor.choice(
      {.name = "optimizer_state", .meaning = "what happens to the optimizer's state when parameters are averaged"},
      settings.optimizer_state,
      {{"average", "it is averaged like the parameters"},
       {"keep", "every rank keeps its own state"},
       {"reset", "it is set to zero, as at the start of a run"}});
  visitor.field({.name = "allreduce_epochs",
                 .meaning = "epochs of allreduce at the start of the run, before local steps begin (post-local SGD)",
                 .unit = "epochs",
                 .minimum = 0,
                 .maximum = 1e9},
                settings.allreduce_epochs);
}

void describe_threads(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.field({.name = "threads",
                 .meaning = "threads of a rank that train on the same parameters at the same time; 0: the rank's equal "
                            "share of the cores that it may run on",
                 .minimum = 0,
                 .maximum = 4096},
                settings.threads);
}

void describe_hogwild(ConfigVisitor& visitor, StrategySettings& settings) {
  describe_threads(visitor, settings);
  visitor.choice({.name = "locking", .meaning = "what a thread locks during an update"}, settings.locking,
                 {{"none", "nothing (lock-free); some updates may be lost"},
                  {"striped", "the rows that the example touches, with 4096 locks; no update is lost"},
                  {"global", "all parameters, with a single lock"}});
  visitor.field(
      {.name = "period",
       .meaning =
           "with several ranks: steps between two averages; parameters are also averaged at the end of every epoch",
       .unit = "steps",
       .minimum = 1},
      settings.period);
  describe_merge(visitor, settings);
}

void describe_consistency(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.variant(
      {.name = "consistency", .meaning = "which pushes of the other workers a pull may miss"}, settings.consistency,
      {{"asynchronous", "any: a pull is answered immediately (Downpour SGD)", {}},
       {"bounded", "at most the last `staleness` steps of each worker (stale synchronous parallel)",
        [&settings](ConfigVisitor& v) {
          v.field({.name = "staleness",
                   .meaning = "number of latest steps of each worker that a pull may miss; 0: bulk synchronous",
                   .unit = "steps",
                   .minimum = 0,
                   .maximum = 1 << 20},
                  settings.staleness);
        }},
       {"synchronous",
        "none: the servers wait for the pushes of all workers in each step, and make one update of them",
        {}}});
  visitor.require("push_period", settings.consistency != "bounded" || settings.push_period <= settings.staleness + 1,
                  "push_period is larger than staleness + 1, so all workers would wait for each other forever: lower "
                  "push_period, or raise staleness");
  const bool plain = settings.pull_period == 1 && settings.push_period == 1 && settings.stale_rate == "whole" &&
                     settings.delay_compensation == 0;
  visitor.require("consistency", settings.consistency != "synchronous" || plain,
                  "with consistency = \"synchronous\", workers exchange after every step and no gradient is stale: "
                  "remove pull_period, push_period, stale_rate and delay_compensation");
}

void describe_servers(ConfigVisitor& visitor, StrategySettings& settings) {
  visitor.number_or(
      {.name = "servers",
       .meaning = "number of ranks that only serve: each holds a shard of the parameters and does not train",
       .minimum = 1,
       .maximum = 1 << 20},
      settings.servers, {"colocated", "every rank trains, and also serves a shard in a separate thread"});
}

void describe_elastic(ConfigVisitor& visitor, StrategySettings& settings) {
  describe_servers(visitor, settings);
  visitor.field({.name = "period",
                 .meaning = "steps of a worker between two exchanges with the center",
                 .unit = "steps",
                 .minimum = 1},
                settings.period);
  visitor.field({.name = "elasticity",
                 .meaning = "elasticity α: how far a worker and the center move towards each other, as a share of "
                            "their distance; 0: 0.9 / number of workers",
                 .minimum = 0,
                 .maximum = 1},
                settings.elasticity);
}

void describe_parameter_server(ConfigVisitor& visitor, StrategySettings& settings) {
  describe_servers(visitor, settings);
  visitor.field({.name = "pull_period",
                 .meaning = "steps of a worker between two pulls; in between, it updates its own copy with plain SGD",
                 .unit = "steps",
                 .minimum = 1},
                settings.pull_period);
  visitor.field({.name = "push_period",
                 .meaning = "steps of a worker between two pushes; a push carries the sum of their gradients",
                 .unit = "steps",
                 .minimum = 1},
                settings.push_period);
  visitor.field({.name = "prefetch",
                 .meaning = "pull while the previous step computes: the worker does not wait for parameters, but they "
                            "do not yet include its own last push"},
                settings.prefetch);
  visitor.choice({.name = "stale_rate", .meaning = "learning rate for stale gradients"}, settings.stale_rate,
                 {{"whole", "the same as for any other"},
                  {"divided", "divided by the staleness (in updates), if that is above 1"}});
  visitor.field(
      {.name = "delay_compensation",
       .meaning =
           "delay compensation: stale gradients are corrected to g + λ g² (θ − θ_read) with this λ; 0: no correction",
       .minimum = 0},
      settings.delay_compensation);
  visitor.field({.name = "warmup_steps",
                 .meaning = "number of steps at the start of a run that one worker makes alone",
                 .unit = "steps",
                 .minimum = 0},
                settings.warmup_steps);
  describe_consistency(visitor, settings);
  visitor.field({.name = "record",
                 .meaning = "record the order in which pulls and pushes reached the servers, in events.bin of the run "
                            "folder, so that `unisono replay` can repeat the run bit for bit"},
                settings.record);
  visitor.require(
      "record", !settings.record || settings.consistency != "synchronous",
      "synchronous runs need no record, because the same number of ranks always gives the same run; remove record");
  visitor.choice(
      {.name = "merge", .meaning = "for models that are updated in place: how a worker's change of a row is applied"},
      settings.merge,
      {{"auto", "mean for linear models, sum for all others"},
       {"sum", "the change is added"},
       {"mean", "the change is divided by the number of workers and added"}});
}

}  // namespace

void StrategySettings::describe(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind", .meaning = "strategy of parallel training"}, kind,
      {{"allreduce", "all ranks make every step together, with the mean gradient over the global batch", {}},
       {"averaging", "local SGD: ranks make steps on their own and average their parameters at intervals",
        [this](ConfigVisitor& v) { describe_averaging(v, *this); }},
       {"elastic_averaging",
        "workers train on their own, and at intervals each is drawn towards a center that servers hold",
        [this](ConfigVisitor& v) { describe_elastic(v, *this); }},
       {"hogwild",
        "lock-free: threads of a rank train on the same parameters without waiting for each other; ranks average at "
        "intervals",
        [this](ConfigVisitor& v) { describe_hogwild(v, *this); }},
       {"parameter_server",
        "workers compute gradients at their own pace; servers hold shards of the parameters and update them as "
        "gradients arrive",
        [this](ConfigVisitor& v) { describe_parameter_server(v, *this); }},
       {"serial", "one rank, one step after the other; the reference for the other strategies", {}},
       {"stratified",
        "for factorization: all threads and ranks work on blocks of ratings that share neither users nor items; each "
        "rank holds a part of the data and of the parameters",
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

}  // namespace unisono::strategies
