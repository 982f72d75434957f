// Elastic averaging: each worker trains its own replica, pulled towards a common center that servers hold.
//     every worker:   x ← x − rate · direction(g)                by its own optimizer, momentum included
//     after every `period` of its own steps, asynchronously:
//                     x ← x − α (x − center),   center ← center + α (x − center)
//   α = elasticity; 0: 0.9 / workers. The center is the model that is evaluated, exported and compared. It contains
//   what the other workers have pushed so far.
//   Zhang, Choromanska & LeCun, "Deep learning with elastic averaging SGD", NIPS 2015 (algorithm 1; with momentum: 2).
// Cost per worker and period: a pull and a push of 4N bytes. Memory: a second θ per worker.
#include "elastic_averaging.hpp"

#include <algorithm>
#include <utility>

#include "server/serving.hpp"
#include "step.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

/// A worker that trains its own replica.
class ElasticWorker final : public ServedWorker {
 public:
  ElasticWorker(const TrainContext& run, Client client, const WorkerSettings& settings, std::vector<comm::Slice> places,
                float elasticity)
      : ServedWorker(run, std::move(client), settings),
        places_(std::move(places)),
        elasticity_(elasticity),
        center_(std::ssize(run.state.parameters), run.backend.memory()),
        center_statistics_(std::ssize(run.state.statistics), run.backend.memory()) {
    const MutableView replica = run.vectors.front().values.view();  // x
    if (run.first_step == 0) run.backend.memory().copy(run.state.parameters, replica);
    run_.state.parameters = replica;
  }

 private:
  void make_steps(const Segment& segment) override;
  std::int64_t steps_to_meeting() const { return settings_.pull_period - steps() % settings_.pull_period; }
  /// Exchanges with the center that was pulled last.
  void meet_center(std::int64_t clock, const data::Batch& last);

  std::vector<comm::Slice> places_;
  float elasticity_;
  Buffer center_;  ///< as pulled; then overwritten with what is pushed
  Buffer center_statistics_;
};

void ElasticWorker::make_steps(const Segment& segment) {
  data::Batch batch;
  for (std::int64_t clock = 0;;) {
    client_.start_pull(clock, steps_to_meeting(), parts_of(center_.view(), places_), center_statistics_.view());
    const std::int64_t granted = client_.finish_pull().granted;
    // Decided by the worker's own steps, not by segments, which also end for reports.
    if (clock > 0 && steps() % settings_.pull_period == 0) meet_center(clock, batch);
    if (granted == 0) return;
    for (const std::int64_t last = clock + granted; clock < last; ++clock) {
      batch = parallel::accumulate_gradient(run_, parallel::MeanOver::own_examples);
      if (batch.rank_step_size > 0) parallel::update_parameters(run_, run_.schedule.rate(segment.step_at(clock)));
      count(batch);
    }
  }
}

void ElasticWorker::meet_center(std::int64_t clock, const data::Batch& last) {
  {
    const parallel::Phase phase(run_, run_.seconds.optimizer);
    const MutableView difference = center_.view(), x = run_.state.parameters;
    run_.backend.axpby(1, x, -1, difference);
    run_.backend.axpby(elasticity_, difference, 0, difference);
    run_.backend.axpby(-1, difference, 1, x);
    run_.backend.submit();
  }
  client_.start_push({.clock = clock, .examples = 1, .weight = share_of(last)}, parts_of(center_.view(), places_),
                     run_.state.statistics);
  client_.finish_push();
}

class ElasticAveraging final : public Strategy {
 public:
  explicit ElasticAveraging(const StrategySettings& settings)
      : settings_(settings), own_(settings.own.of<ElasticSettings>()) {}

  void train(TrainContext& run) override;
  bool optimizer_state_is_local() const override { return true; }
  std::vector<parallel::StateVector> state_vectors() const override {
    return {{.name = "replica", .scope = parallel::StateScope::replica}};
  }
  std::optional<DataShard> data_shard(int rank, int ranks) const override {
    return unisono::strategies::data_shard(roles_of(settings_, ranks), rank);
  }
  int servers(int ranks) const override { return roles_of(settings_, ranks).servers(); }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int states) const override;
  std::int64_t extra_bytes_of_all(const models::Model& model, int ranks, int states) const override;
  /// A pull, and then a push.
  std::optional<Traffic> traffic(const models::Model& model, int ranks, int, const data::DatasetInfo&) const override {
    const auto period = static_cast<double>(own_.period);
    const Exchange one_way{.pattern = Pattern::serve, .floats = model.layout().size(), .every_steps = period};
    return Traffic{.exchanges = {one_way, one_way},
                   .touched_floats = 9.0 * static_cast<double>(model.layout().size()) / period,
                   .waits = waits_of_servers(settings_, ranks, period)};
  }

 private:
  StrategySettings settings_;
  ElasticSettings own_;
};

/// A worker: its copy of the center. A server: its shard, a buffer for each worker's push, and copies that are still
/// being sent to others.
RoleBytes bytes_of_roles(const models::Model& model, const Roles& roles) {
  constexpr std::int64_t kFloat = sizeof(float);
  const std::int64_t n = model.layout().size();
  return {.worker = kFloat * n, .server = kFloat * ((n + roles.servers() - 1) / roles.servers() * 2 * roles.workers())};
}

std::int64_t ElasticAveraging::extra_bytes(const models::Model& model, int ranks, int) const {
  return bytes_of_roles(model, roles_of(settings_, ranks)).of_rank(settings_.servers == 0);
}

std::int64_t ElasticAveraging::extra_bytes_of_all(const models::Model& model, int ranks, int) const {
  const Roles roles = roles_of(settings_, ranks);
  return bytes_of_roles(model, roles).of_all(roles);
}

void ElasticAveraging::train(TrainContext& run) {
  ServingPlan plan{.roles = roles_of(settings_, run.communicator.size())};
  const int workers = plan.roles.workers();
  const double elasticity = own_.elasticity > 0 ? own_.elasticity : 0.9 / workers;
  plan.places = cut_into_shards(run.model.layout(), plan.roles.servers(), Cut::lines);
  plan.make_worker = [places = plan.places, elasticity, period = own_.period, workers](const TrainContext& own,
                                                                                       Client client) {
    const WorkerSettings settings{.pull_period = period, .workers = workers};
    return std::make_unique<ElasticWorker>(own, std::move(client), settings, places, static_cast<float>(elasticity));
  };
  plan.make_shard = [&run](comm::Slice place, MutableView statistics, kernels::Backend&) {
    return make_sum_shard(place, {run.state.parameters, statistics}, run.backend.memory());
  };
  plan.at_meeting = [&run](comm::Communicator& group, const Roles& roles) {
    // A checkpoint keeps a worker's vectors for each rank: those that only serve lend theirs to the first worker's.
    if (roles.workers() == group.size()) return;
    const bool trains = !roles.workers_of(group.rank()).empty();
    std::vector<float> first(run.state.parameters.size());
    const auto lend = [&](MutableView values) {
      if (group.is_root()) run.backend.memory().copy(values, first);
      group.broadcast(std::as_writable_bytes(std::span(first)), 0);
      if (!trains) run.backend.memory().copy(first, values);
    };
    for (optim::OptimizerState& state : run.optimizer->state()) lend(state.values.view());
    for (parallel::StrategyVector& kept : run.vectors) lend(kept.values.view());
  };
  Serving(run, std::move(plan)).train();
}

void describe_elastic_averaging(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<ElasticSettings>();
  settings.describe_servers(visitor);
  visitor.field({.name = "period",
                 .meaning = "steps of a worker between two exchanges with the center",
                 .unit = "steps",
                 .range = at_least(1)},
                own.period);
  visitor.field({.name = "elasticity",
                 .meaning = "elasticity α: how far a worker and the center move towards each other, as a share of "
                            "their distance; 0: 0.9 / number of workers",
                 .range = at_least(0).at_most(1)},
                own.elasticity);
}

std::string elastic_averaging_relief(const StrategySettings& settings, bool) {
  return relief_by_servers(settings) + "a longer period";
}

}  // namespace

StrategyKind elastic_averaging_strategy() {
  return {.name = "elastic_averaging",
          .meaning = "workers train on their own, and at intervals each is drawn towards a center that servers hold",
          .describe = describe_elastic_averaging,
          .make = construct<ElasticAveraging>,
          .traits = {.needs_gradient = true, .has_servers = true, .at_own_pace = true, .simulated = true},
          .waiting = "workers waited for messages",
          .relief = elastic_averaging_relief,
          .proposals = {{"elastic_averaging, period 16", {}, "ranks differ, drawn to a center at their own pace"}}};
}

}  // namespace unisono::strategies
