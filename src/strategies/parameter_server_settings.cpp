#include "parameter_server.hpp"
#include "server/serving.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<Consistency> kConsistencies[] = {
    {Consistency::asynchronous, "asynchronous", "any: a pull is answered immediately (Downpour SGD)"},
    {Consistency::bounded, "bounded", "at most the last `staleness` steps of each worker (stale synchronous parallel)"},
    {Consistency::synchronous, "synchronous",
     "none: the servers wait for the pushes of all workers in each step, and make one update of them"}};

constexpr Named<StaleRate> kStaleRates[] = {
    {StaleRate::whole, "whole", "the same as for any other"},
    {StaleRate::divided, "divided", "divided by the staleness (in updates), if that is above 1"}};

constexpr Named<RowMerge> kMerges[] = {
    {RowMerge::by_model, "auto", "mean for linear models, sum for all others"},
    {RowMerge::sum, "sum", "the change is added"},
    {RowMerge::mean, "mean", "the change is divided by the number of workers and added"}};

void describe_consistency(ParameterServerSettings& own, ConfigVisitor& visitor) {
  visitor.variant({.name = "consistency", .meaning = "which pushes of the other workers a pull may miss"},
                  own.consistency, kConsistencies,
                  {{Consistency::bounded, [&own](ConfigVisitor& v) {
                      v.field({.name = "staleness",
                               .meaning = "number of latest steps of each worker that a pull may miss; 0: bulk "
                                          "synchronous",
                               .unit = "steps",
                               .minimum = 0,
                               .maximum = 1 << 20},
                              own.staleness);
                    }}});
  visitor.require("push_period", own.consistency != Consistency::bounded || own.push_period <= own.staleness + 1,
                  "push_period is larger than staleness + 1, so all workers would wait for each other forever: lower "
                  "push_period, or raise staleness");
  const bool plain =
      own.pull_period == 1 && own.push_period == 1 && own.stale_rate == StaleRate::whole && own.delay_compensation == 0;
  visitor.require("consistency", own.consistency != Consistency::synchronous || plain,
                  "with consistency = \"synchronous\", workers exchange after every step and no gradient is stale: "
                  "remove pull_period, push_period, stale_rate and delay_compensation");
}

void describe_exchange(ParameterServerSettings& own, ConfigVisitor& visitor) {
  visitor.field({.name = "pull_period",
                 .meaning = "steps of a worker between two pulls; in between, it updates its own copy with plain SGD",
                 .unit = "steps",
                 .minimum = 1},
                own.pull_period);
  visitor.field({.name = "push_period",
                 .meaning = "steps of a worker between two pushes; a push carries the sum of their gradients",
                 .unit = "steps",
                 .minimum = 1},
                own.push_period);
  visitor.field({.name = "prefetch",
                 .meaning = "pull while the previous step computes: the worker does not wait for parameters, but they "
                            "do not yet include its own last push"},
                own.prefetch);
}

void describe_stale_gradients(ParameterServerSettings& own, ConfigVisitor& visitor) {
  visitor.choice({.name = "stale_rate", .meaning = "learning rate for stale gradients"}, own.stale_rate, kStaleRates);
  visitor.field(
      {.name = "delay_compensation",
       .meaning =
           "delay compensation: stale gradients are corrected to g + λ g² (θ − θ_read) with this λ; 0: no correction",
       .minimum = 0},
      own.delay_compensation);
}

}  // namespace

void describe_parameter_server(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<ParameterServerSettings>();
  settings.describe_servers(visitor);
  describe_exchange(own, visitor);
  describe_stale_gradients(own, visitor);
  visitor.field({.name = "warmup_steps",
                 .meaning = "number of steps at the start of a run that one worker makes alone",
                 .unit = "steps",
                 .minimum = 0},
                own.warmup_steps);
  describe_consistency(own, visitor);
  visitor.field({.name = "record",
                 .meaning = "record the order in which pulls and pushes reached the servers, in events.bin of the run "
                            "folder, so that `unisono replay` can repeat the run bit for bit"},
                settings.record);
  visitor.require(
      "record", !settings.record || own.consistency != Consistency::synchronous,
      "synchronous runs need no record, because the same number of ranks always gives the same run; remove record");
  visitor.choice(
      {.name = "merge", .meaning = "for models that are updated in place: how a worker's change of a row is applied"},
      own.merge, kMerges);
  visitor.section({.name = "compression", .meaning = "what workers push instead of whole gradients"},
                  [&own](ConfigVisitor& inner) { own.compression.describe_for_pushes(inner); });
}

void check_parameter_server(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) {
  const auto own = settings.own.of<ParameterServerSettings>();
  visitor.require(
      "optimizer", own.consistency != Consistency::synchronous || terms.clip_norm == 0,
      "clip_norm does not work with synchronous servers, because each server sees only its shard of the mean gradient; "
      "remove it, or set another strategy.consistency");
}

std::string relief_of_parameter_server(const StrategySettings& settings, bool in_place) {
  const auto own = settings.own.of<ParameterServerSettings>();
  const std::string more_servers = relief_by_servers(settings);
  if (in_place) return more_servers + "a larger train.batch_size";
  const std::string ahead = own.prefetch ? "" : "prefetch = true, or ";
  return more_servers + ahead +
         (own.consistency == Consistency::synchronous ? "a larger train.batch_size"
                                                      : "a longer pull_period and push_period");
}

}  // namespace unisono::strategies
