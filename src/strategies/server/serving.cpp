#include "server/serving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "step.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {

Roles roles_of(const StrategySettings& settings, int ranks) {
  if (settings.replayed_workers > 0) {
    return Roles::dealt(ranks, static_cast<int>(settings.replayed_workers),
                        static_cast<int>(settings.replayed_servers));
  }
  if (settings.servers >= ranks) {
    throw ConfigError(fmt::format(
        "strategy.servers: {} on {} rank{} leave no rank to train: start more ranks, or set it to \"colocated\"",
        settings.servers, ranks, ranks == 1 ? "" : "s"));
  }
  return Roles::of_ranks(ranks, static_cast<int>(settings.servers));
}

std::string relief_by_servers(const StrategySettings& settings) {
  return settings.servers > 0 ? "try more servers (strategy.servers), or " : "try ";
}

std::vector<Wait> waits_of_servers(const StrategySettings& settings, int ranks, double period) {
  if (settings.servers > 0) return {};
  return {{.per_step = ranks / period}};
}

std::optional<Strategy::DataShard> data_shard(const Roles& roles, int rank) {
  const std::vector<int> own = roles.workers_of(rank);
  if (own.empty()) return std::nullopt;
  return Strategy::DataShard{own.front(), roles.workers()};
}

// --- Roles -----------------------------------------------------------------------------------------------------------

Serving::Serving(TrainContext& run, ServingPlan plan)
    : run_(run),
      plan_(std::move(plan)),
      group_(run.communicator.split(0, run.communicator.rank())),
      wire_(*group_, plan_.roles, run.runtime) {
  begin_counters();
  add_workers();
  add_servers();
  const auto roles = static_cast<int>(workers_.size() + servers_.size());
  if (roles > 0) team_ = std::make_unique<ThreadTeam>(roles, "a rank's workers and servers", run.runtime);
}

/// Those of all servers, on every rank.
void Serving::begin_counters() {
  const ServedShard none{.counters = ServerCounters::of_workers(plan_.roles.workers())};
  run_.counters.of<ServingCounters>().shards.assign(static_cast<std::size_t>(plan_.roles.servers()), none);
}

void Serving::add_workers() {
  const std::vector<int> own = plan_.roles.workers_of(run_.communicator.rank());
  for (std::size_t place = 0; place < own.size(); ++place) {
    kernels::Backend& backend = run_.workers.empty() ? run_.backend : run_.workers[place].backend;
    WorkerRole& role = *workers_.emplace_back(std::make_unique<WorkerRole>(WorkerRole{own[place], backend}));
    Client client(wire_, role.number, plan_.roles.servers(), std::ssize(run_.state.statistics));
    TrainContext context = context_of(role, place);
    role.worker = plan_.make_worker(context, std::move(client));
    if (run_.worker_steps.size() != static_cast<std::size_t>(plan_.roles.workers())) continue;
    // In a resumed run each worker continues after its own number of steps.
    const std::int64_t made = run_.worker_steps[static_cast<std::size_t>(role.number)];
    const std::int64_t steps_per_epoch = context.source.steps_per_epoch();
    role.worker->set_steps(made);
    if (!plan_.serves_optimizer) context.optimizer->set_steps(made);  // a checkpoint has that of rank 0
    context.source.seek({made / steps_per_epoch, made % steps_per_epoch});
  }
}

/// The context for one worker: with its own sums and seconds and, if the rank has several workers, its own model,
/// source and vectors.
TrainContext Serving::context_of(WorkerRole& role, std::size_t place) const {
  const Worker own = run_.workers.empty()
                         ? Worker{run_.backend, run_.model, run_.source, *run_.optimizer, run_.state, run_.gradient}
                         : run_.workers[place];
  return {{.communicator = run_.communicator,
           .backend = own.backend,
           .model = own.model,
           .replica = run_.replica,
           .optimizer = &own.optimizer,
           .source = own.source,
           .state = own.state,
           .gradient = own.gradient,
           .sums = role.sums,
           .seconds = role.seconds,
           .counters = run_.counters,
           .first_step = run_.first_step,
           .vectors = run_.workers.empty() ? run_.vectors : std::span<parallel::StrategyVector>(),
           .fault = run_.fault,
           .gradients = run_.gradients,
           .runtime = run_.runtime},
          {.optimizer_settings = run_.optimizer_settings,
           .schedule = run_.schedule,
           .observer = run_.observer,
           .total_steps = run_.total_steps,
           .threads = run_.threads},
          {},
          {}};
}

void Serving::add_servers() {
  const std::vector<int> own = plan_.roles.servers_of(run_.communicator.rank());
  if (own.empty()) return;
  backend_ =
      kernels::make_cpu_backend(workers_.empty() ? run_.threads : 1);  // beside a worker there is no core to spare
  for (const int number : own) {
    const comm::Slice place = plan_.places[static_cast<std::size_t>(number)];
    ServerRole& role = *servers_.emplace_back(std::make_unique<ServerRole>(ServerRole{number, nullptr, nullptr, {}}));
    role.shard = plan_.make_shard(place, number == 0 ? run_.state.statistics : MutableView{}, *backend_);
    role.server = std::make_unique<Server>(wire_, plan_.roles, number, *role.shard, plan_.server,
                                           plan_.make_code ? plan_.make_code(place) : nullptr);
  }
}

// --- Training --------------------------------------------------------------------------------------------------------

void Serving::train() {
  bool go_on = true;
  for (std::int64_t made = run_.first_step; go_on && made < run_.total_steps;) {
    const Segment segment = next_segment(made);
    run_roles(segment);
    parallel::meet(run_);
    collect();
    gather();
    if (plan_.at_meeting) plan_.at_meeting(*group_, plan_.roles);
    if (run_.recorder != nullptr) record(segment);
    made = segment.last;
    go_on = run_.observer.step(record_of(segment));
  }
}

/// The segment goes to the next report, evaluation or checkpoint, or as it was recorded. During warm-up it ends with
/// the warm-up at the latest, and worker 0 makes the steps of all workers.
Segment Serving::next_segment(std::int64_t made) const {
  const bool alone = made < plan_.alone_until;
  std::int64_t last = std::min(run_.total_steps, run_.observer.next_due(made));
  if (run_.replayed != nullptr) last = run_.replayed->segment_at(made).last;
  if (alone) last = std::min(last, plan_.alone_until);
  const int workers = plan_.roles.workers();
  return {.first = made, .last = last, .active = alone ? 1 : workers, .steps = (last - made) * (alone ? workers : 1)};
}

EventOrder Serving::order_of(const Segment& segment, int server) const {
  if (run_.replayed == nullptr) return {};
  const auto& events = run_.replayed->segment_at(segment.first).orders;
  return EventOrder(decode(events.at(static_cast<std::size_t>(server))));
}

void Serving::run_roles(const Segment& segment) {
  for (const auto& server : servers_) server->order = order_of(segment, server->number);
  if (!team_) return;  // a replay may have more ranks than roles
  // A rank's worker goes on with the sum, whose bits then do not depend on how many steps are made at a time.
  if (!workers_.empty()) workers_.front()->sums = std::exchange(run_.sums, {});
  team_->run([&](int thread) {
    try {
      const auto role = static_cast<std::size_t>(thread);
      if (role >= workers_.size()) {
        ServerRole& server = *servers_[role - workers_.size()];
        server.server->serve(segment, server.order);
      } else if (workers_[role]->number < segment.active) {
        workers_[role]->worker->train(segment);
      }
    } catch (...) {
      wire_.give_up(std::current_exception());
    }
  });
  wire_.rethrow_cause();
}

/// Adds up the counters of this rank's roles.
void Serving::collect() {
  for (const auto& role : workers_) {
    role->backend.collect(role->sums);
    run_.sums += std::exchange(role->sums, {});
  }
  // Several workers of a rank run concurrently: the seconds of one of them are taken.
  if (!workers_.empty()) {
    run_.seconds += std::exchange(workers_.front()->seconds, {});
  }
  if (plan_.make_code) {
    auto& compression = run_.counters.of<parallel::CompressionCounters>() = {};
    for (const auto& role : workers_) {
      compression.sent_bytes += role->worker->compression().sent_bytes;
      compression.plain_bytes += role->worker->compression().plain_bytes;
    }
  }
  for (const auto& role : servers_) {
    run_.counters.of<ServingCounters>().shards[static_cast<std::size_t>(role->number)] = {
        .rank = run_.communicator.rank(),
        .floats = std::ssize(role->shard->values()),
        .counters = role->server->counters()};
  }
}

/// Copies the servers' shards and statistics to all ranks.
void Serving::gather() {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  Allocator& memory = run_.backend.memory();
  for (const auto& role : servers_) {
    const comm::Slice place = role->shard->place();
    memory.copy(role->shard->values(), slice(run_.state.parameters, place));
    if (role->number == 0) memory.copy(role->shard->statistics(), run_.state.statistics);
    optim::Optimizer* const optimizer = role->shard->optimizer();
    if (optimizer == nullptr) continue;
    for (std::size_t i = 0; i < optimizer->state().size(); ++i) {
      memory.copy(optimizer->state()[i].values.view(), slice(run_.optimizer->state()[i].values.view(), place));
    }
    run_.optimizer->set_steps(optimizer->steps());
  }
  for (int server = 0; server < plan_.roles.servers(); ++server) broadcast_shard(server);
  const int first = plan_.roles.rank_of_server(0);
  group_->broadcast(std::as_writable_bytes(run_.state.statistics), first);
  if (!plan_.serves_optimizer) return;
  std::int64_t steps = run_.optimizer->steps();
  group_->broadcast(std::as_writable_bytes(std::span(&steps, 1)), first);
  run_.optimizer->set_steps(steps);
}

void Serving::broadcast_shard(int server) {
  const comm::Slice place = plan_.places[static_cast<std::size_t>(server)];
  const auto broadcast = [&](MutableView whole) {
    group_->broadcast(std::as_writable_bytes(slice(whole, place)), plan_.roles.rank_of_server(server));
  };
  broadcast(run_.state.parameters);
  if (!plan_.serves_optimizer) return;
  for (optim::OptimizerState& state : run_.optimizer->state()) broadcast(state.values.view());
}

/// Gives the recorder the order in which the servers handled their events.
void Serving::record(const Segment& segment) {
  std::vector<std::byte> own;
  for (const auto& role : servers_) {
    const std::vector<std::byte> events = encode(role->order.events());
    const std::array header = {static_cast<std::int64_t>(role->number), std::ssize(events)};
    const auto bytes = std::as_bytes(std::span(header));
    own.insert(own.end(), bytes.begin(), bytes.end());
    own.insert(own.end(), events.begin(), events.end());
  }
  RecordedSegment recorded{.first = segment.first, .last = segment.last, .orders = {}};
  recorded.orders.resize(static_cast<std::size_t>(plan_.roles.servers()));
  for (const std::vector<std::byte>& rank : group_->all_gather_bytes(own)) {
    for (std::span<const std::byte> left(rank); !left.empty();) {
      std::array<std::int64_t, 2> header{};
      std::memcpy(header.data(), left.data(), sizeof(header));
      const auto events = left.subspan(sizeof(header), static_cast<std::size_t>(header[1]));
      recorded.orders[static_cast<std::size_t>(header[0])].assign(events.begin(), events.end());
      left = left.subspan(sizeof(header) + events.size());
    }
  }
  run_.recorder->add(recorded);
}

StepRecord Serving::record_of(const Segment& segment) {
  std::vector<StepsOfWorker> steps;
  Index examples = 0;
  for (const auto& role : workers_) {
    steps.push_back({role->number, role->worker->steps()});
    examples += role->worker->examples();
  }
  return strategies::record_of(run_, *group_, segment, steps, examples, examples_);
}

}  // namespace unisono::strategies
