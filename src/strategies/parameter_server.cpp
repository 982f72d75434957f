#include "parameter_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/serving.hpp"
#include "server/wire.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/optim/catalog.hpp"

// Asynchronous training by a sharded parameter server (Downpour), with bounded staleness where that is wanted.
//   θ is cut into shards, one a server. A worker w, on its own examples, at its own pace:
//     θ_w ← the servers' θ                    a pull, which may miss pushes of others, see consistency below
//     g ← ∇ of its own mini-batch at θ_w      a push: each server makes one optimizer step with its part of g,
//                                             θ ← θ − rate · direction(g), as it arrives
//   A worker of a model that is updated in place pulls the rows that its step touches and pushes their changes, which
//   the servers add. Consistency:
//     asynchronous   a pull is answered at once
//     bounded        a pull for step c is answered when every worker's steps up to c − staleness − 1 are in θ
//     synchronous    the workers' pushes of a step make one update, and a pull for step c contains all of step c − 1
//   With one worker each of these equals the serial run. The run is cut into segments (up to a report, an evaluation or
//   a checkpoint). At the end of each, all pushes are in θ, and all ranks get all of θ.
//   Dean et al., "Large scale distributed deep networks", NIPS 2012; Ho et al., "More effective distributed ML via a
//   stale synchronous parallel parameter server", NIPS 2013.
// Cost per worker and step: a pull and a push of 4N bytes in all; with rows, only of those that are touched; compressed
// pushes, see server/wire.cpp, are shorter.
namespace unisono::strategies {
namespace {

class ParameterServer final : public Strategy {
 public:
  explicit ParameterServer(const StrategySettings& settings)
      : settings_(settings), own_(settings.own.of<ParameterServerSettings>()) {}

  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  std::optional<DataShard> data_shard(int rank, int ranks) const override {
    return unisono::strategies::data_shard(roles_of(settings_, ranks), rank);
  }
  int servers(int ranks) const override { return roles_of(settings_, ranks).servers(); }
  std::vector<int> housed_workers(int rank, int ranks) const override;
  std::vector<parallel::StateVector> state_vectors() const override;
  std::string obstacle_to_gpus() const override {
    return own_.compression.is_on() ? "strategy.compression works only on CPUs" : "";
  }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int states) const override;
  std::int64_t extra_bytes_of_all(const models::Model& model, int ranks, int states) const override;
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int states,
                                 const data::DatasetInfo&) const override;

 private:
  RoleBytes bytes_of_roles(const models::Model& model, const Roles& roles, int states) const;
  void require_in_place() const;
  std::int64_t message_bytes(const ParameterLayout& layout, const Roles& roles) const;
  void hand_over_residuals(TrainContext& run) const;
  ServingPlan plan(const TrainContext& run) const;
  ServingPlan plan_for_gradients(const TrainContext& run) const;
  ServingPlan plan_for_rows(const TrainContext& run) const;
  std::int64_t kept_reads() const;
  std::int64_t bound() const { return own_.consistency == Consistency::bounded ? own_.staleness : 0; }
  WorkerSettings worker_settings(const TrainContext& run, const Roles& roles) const;

  StrategySettings settings_;
  ParameterServerSettings own_;
};

}  // namespace

void ParameterServer::require(const models::Model& model, int) const {
  if (model.in_place() != nullptr) return require_in_place();
  if (own_.merge != MergeChoice::by_model) {
    throw ConfigError(
        "strategy.merge: it applies only to models that are updated in place, but this one is not; remove it");
  }
  require_gradient(model);
  parallel::require_fitting_blocks(own_.compression, model.layout());
}

/// Refuses settings for gradients: a model that is updated in place exchanges rows after each of its steps.
void ParameterServer::require_in_place() const {
  const auto refuse = [](bool wrong, std::string_view key, std::string_view reason) {
    if (!wrong) return;
    throw ConfigError(
        fmt::format("strategy.{} does not apply to models that are updated in place: {}; remove it", key, reason));
  };
  constexpr std::string_view kPeriod = "they exchange rows after each step, whose length is train.batch_size";
  constexpr std::string_view kGradient = "they push changes, not gradients";
  refuse(own_.pull_period != 1, "pull_period", kPeriod);
  refuse(own_.push_period != 1, "push_period", kPeriod);
  refuse(own_.prefetch, "prefetch", "which rows a step needs is known only when it begins");
  refuse(own_.stale_rate != StaleRate::whole, "stale_rate", kGradient);
  refuse(own_.delay_compensation != 0, "delay_compensation", kGradient);
  refuse(own_.compression.is_on(), "compression", kGradient);
}

/// Not empty only in a replay, which may have fewer ranks than the recorded run had workers.
std::vector<int> ParameterServer::housed_workers(int rank, int ranks) const {
  return settings_.replayed_workers > 0 ? roles_of(settings_, ranks).workers_of(rank) : std::vector<int>();
}

std::vector<parallel::StateVector> ParameterServer::state_vectors() const {
  if (!own_.compression.is_on()) return {};
  return {{.name = "residual", .scope = parallel::StateScope::rank, .adds_up = true}};
}

/// Of one push's messages to all servers, at most.
std::int64_t ParameterServer::message_bytes(const ParameterLayout& layout, const Roles& roles) const {
  std::int64_t bytes = 0;
  for (const comm::Slice& shard : cut_into_shards(layout, roles.servers(), Cut::lines)) {
    bytes += PushCode(layout, shard, own_.compression).most_bytes();
  }
  return bytes;
}

/// A worker: its second gradient and other second buffers. A server: its shard, the optimizer's state, a buffer for
/// each worker's push, and the copies of the shard as workers have read it that are kept, or still being sent while
/// another push is applied. Where pushes are compressed, a worker has its messages and no second gradient, and a
/// server a message of each worker. With rows: what a worker pulls and has pushed, and the same for each worker at a
/// server. This is an upper bound, as if every step touched all rows.
RoleBytes ParameterServer::bytes_of_roles(const models::Model& model, const Roles& roles, int states) const {
  const std::int64_t n = model.layout().size(), workers = roles.workers();
  const bool in_place = model.in_place() != nullptr;
  const bool compresses = own_.compression.is_on();
  const std::int64_t vectors = (own_.push_period > 1 ? 2 : 1) - (compresses ? 1 : 0);
  const std::int64_t message = compresses ? message_bytes(model.layout(), roles) : 0;
  const std::int64_t floats = n * (in_place ? 2 : vectors + (own_.prefetch ? 1 : 0));
  const std::int64_t on_their_way = workers - 1 + (own_.prefetch ? 1 : 0);
  const std::int64_t copies = workers + (in_place ? workers : std::max(kept_reads() * workers, on_their_way));
  const std::int64_t shard = (n + roles.servers() - 1) / roles.servers() * (1 + states + copies);
  constexpr std::int64_t kFloat = sizeof(float);
  return {.worker = kFloat * floats + message, .server = kFloat * shard + workers * message / roles.servers()};
}

std::int64_t ParameterServer::extra_bytes(const models::Model& model, int ranks, int states) const {
  const Roles roles = roles_of(settings_, ranks);
  return bytes_of_roles(model, roles, states).of_rank(settings_.servers == 0);
}

std::int64_t ParameterServer::extra_bytes_of_all(const models::Model& model, int ranks, int states) const {
  const Roles roles = roles_of(settings_, ranks);
  return bytes_of_roles(model, roles, states).of_all(roles);
}

std::optional<Traffic> ParameterServer::traffic(const models::Model& model, int ranks, int,
                                                const data::DatasetInfo&) const {
  const Index n = model.layout().size();
  const Exchange pull{.pattern = Pattern::serve,
                      .floats = n,
                      .every_steps = static_cast<double>(own_.pull_period),
                      .during = own_.prefetch ? During::gradient : During::nothing};
  const auto period = static_cast<double>(std::min(own_.pull_period, own_.push_period));
  Traffic traffic{.exchanges = {pull}, .waits = waits_of_servers(settings_, ranks, period)};
  Exchange push{.pattern = Pattern::serve,
                .floats = n,
                .every_steps = static_cast<double>(own_.push_period),
                .during = During::period};
  if (own_.compression.is_on()) {
    const parallel::CompressedBlocks blocks = parallel::divide_blocks(model.layout(), own_.compression);
    push.floats = parallel::size_of(blocks.exact);
    traffic.encoder = parallel::make_encoder(own_.compression);
    traffic.exchanges.push_back({.pattern = Pattern::serve,
                                 .floats = parallel::size_of(blocks.compressed),
                                 .encoded = true,
                                 .every_steps = push.every_steps,
                                 .during = push.during});
  }
  traffic.exchanges.push_back(std::move(push));
  return traffic;
}

/// A push was computed on the values that its worker pulled last or, with prefetch, on those of the pull before.
std::int64_t ParameterServer::kept_reads() const {
  if (own_.delay_compensation == 0) return 0;
  return own_.prefetch ? 2 : 1;
}

WorkerSettings ParameterServer::worker_settings(const TrainContext& run, const Roles& roles) const {
  const models::InPlace* const in_place = run.model.in_place();
  const bool mean = in_place != nullptr && !sums_changes(*in_place, own_.merge);
  return {.consistency = own_.consistency,
          .staleness = bound(),
          .pull_period = own_.pull_period,
          .push_period = own_.push_period,
          .prefetch = own_.prefetch,
          .clip_norm = run.optimizer_settings.clip_norm,
          .workers = roles.workers(),
          .share = mean ? 1 / static_cast<float>(roles.workers()) : 1,
          .compression = own_.compression};
}

ServingPlan ParameterServer::plan(const TrainContext& run) const {
  ServingPlan plan = run.model.in_place() != nullptr ? plan_for_rows(run) : plan_for_gradients(run);
  plan.server = {.consistency = own_.consistency, .staleness = bound(), .kept_reads = kept_reads()};
  plan.alone_until = own_.warmup_steps;
  return plan;
}

ServingPlan ParameterServer::plan_for_gradients(const TrainContext& run) const {
  ServingPlan plan{.roles = roles_of(settings_, run.communicator.size())};
  plan.serves_optimizer = true;
  plan.places = cut_into_shards(run.model.layout(), plan.roles.servers(),
                                optim::traits_of(run.optimizer_settings).has_block_rates ? Cut::blocks : Cut::lines);
  plan.make_worker = [places = plan.places, settings = worker_settings(run, plan.roles)](const TrainContext& own,
                                                                                         Client client) {
    return make_gradient_worker(own, std::move(client), settings, places);
  };
  if (own_.compression.is_on()) {
    plan.make_code = [this, &run](comm::Slice place) {
      return std::make_unique<PushCode>(run.model.layout(), place, own_.compression);
    };
  }
  plan.make_shard = [this, &run](comm::Slice place, MutableView statistics, kernels::Backend& backend) {
    optim::OptimizerSettings settings = run.optimizer_settings;
    settings.clip_norm = 0;  // workers clip: a server does not see the whole gradient
    auto holding = served_holding(run.model.layout(), place);
    auto optimizer = optim::make_optimizer(settings, *holding, backend);
    for (std::size_t i = 0; i < optimizer->state().size(); ++i) {
      run.backend.memory().copy(slice(run.optimizer->state()[i].values.view(), place),
                                optimizer->state()[i].values.view());
    }
    optimizer->set_steps(run.optimizer->steps());
    return make_gradient_shard(
        std::move(holding), std::move(optimizer), place, {run.state.parameters, statistics},
        {.divide_rate = own_.stale_rate == StaleRate::divided, .delay_compensation = own_.delay_compensation},
        run.backend.memory());
  };
  return plan;
}

ServingPlan ParameterServer::plan_for_rows(const TrainContext& run) const {
  ServingPlan plan{.roles = roles_of(settings_, run.communicator.size())};
  plan.places = cut_between_rows(run.model.layout().size(), run.model.in_place()->row_spaces(), plan.roles.servers());
  plan.make_worker = [places = plan.places, settings = worker_settings(run, plan.roles)](const TrainContext& own,
                                                                                         Client client) {
    return make_in_place_worker(own, std::move(client), settings, places);
  };
  plan.make_shard = [&run, alone = plan.roles.workers() == 1](comm::Slice place, MutableView statistics,
                                                              kernels::Backend&) {
    RowsInShard rows(run.model.layout().size(), run.model.in_place()->row_spaces(), place);
    return make_row_shard(std::move(rows), place, {run.state.parameters, statistics}, alone);
  };
  return plan;
}

/// In a resumed run, ranks that only serve may hold a part of what was not sent. Worker 0 sends it.
void ParameterServer::hand_over_residuals(TrainContext& run) const {
  if (!own_.compression.is_on() || run.first_step == 0) return;
  const bool works = !roles_of(settings_, run.communicator.size()).workers_of(run.communicator.rank()).empty();
  const MutableView residual = run.vectors.front().values.view();
  const bool holds = !works && std::ranges::any_of(residual, [](float value) { return value != 0; });
  if (run.communicator.sum(std::int64_t{holds ? 1 : 0}) == 0) return;
  std::vector<float> left(residual.size());
  if (holds) {
    std::ranges::copy(residual, left.begin());
    std::ranges::fill(residual, 0.0F);
  }
  run.communicator.allreduce_sum(std::span<float>(left));
  if (run.communicator.rank() == 0) run.backend.axpby(1, left, 1, residual);
}

void ParameterServer::train(TrainContext& run) {
  hand_over_residuals(run);
  Serving(run, plan(run)).train();
}

StrategyKind parameter_server_strategy() {
  return {.name = "parameter_server",
          .meaning =
              "workers compute gradients at their own pace; servers hold shards of the parameters and update them "
              "as gradients arrive",
          .describe = describe_parameter_server,
          .check = check_parameter_server,
          .make = construct<ParameterServer>,
          .traits = {.has_servers = true, .at_own_pace = true, .simulated = true},
          .waiting = "workers waited for messages",
          .relief = relief_of_parameter_server,
          .proposals = {{"parameter_server", {}, "gradients at older parameters, applied as they arrive"},
                        {"parameter_server, prefetch", {"prefetch=true"}, "the same, of parameters one step older"}}};
}

namespace {

constexpr Named<Consistency> kConsistencies[] = {
    {Consistency::asynchronous, "asynchronous", "any: a pull is answered immediately (Downpour SGD)"},
    {Consistency::bounded, "bounded", "at most the last `staleness` steps of each worker (stale synchronous parallel)"},
    {Consistency::synchronous, "synchronous",
     "none: the servers wait for the pushes of all workers in each step, and make one update of them"}};

constexpr Named<StaleRate> kStaleRates[] = {
    {StaleRate::whole, "whole", "the same as for any other"},
    {StaleRate::divided, "divided", "divided by the staleness (in updates), if that is above 1"}};

constexpr Named<MergeChoice> kMerges[] = {
    {MergeChoice::by_model, "auto", "mean for linear models, sum for all others"},
    {MergeChoice::sum, "sum", "the change is added"},
    {MergeChoice::mean, "mean", "the change is divided by the number of workers and added"}};

void describe_consistency(ParameterServerSettings& own, ConfigVisitor& visitor) {
  visitor.variant({.name = "consistency", .meaning = "which pushes of the other workers a pull may miss"},
                  own.consistency, kConsistencies,
                  {{Consistency::bounded, [&own](ConfigVisitor& v) {
                      v.field({.name = "staleness",
                               .meaning = "number of latest steps of each worker that a pull may miss; 0: bulk "
                                          "synchronous",
                               .unit = "steps",
                               .range = at_least(0).at_most(1 << 20)},
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
                 .range = at_least(1)},
                own.pull_period);
  visitor.field({.name = "push_period",
                 .meaning = "steps of a worker between two pushes; a push carries the sum of their gradients",
                 .unit = "steps",
                 .range = at_least(1)},
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
       .range = at_least(0)},
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
                 .range = at_least(0)},
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
