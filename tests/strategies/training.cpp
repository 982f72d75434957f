#include "training.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>

#include "unisono/base/clock.hpp"
#include "unisono/comm/gather.hpp"
#include "unisono/comm/process_grid.hpp"
#include "unisono/parallel/pipeline.hpp"
#include "unisono/parallel/slice_holding.hpp"

namespace unisono::strategies {
namespace {

constexpr std::uint64_t kSeed = 5;

std::vector<float> plain(Allocator& memory, View values) {
  std::vector<float> copy(values.size());
  memory.copy(values, copy);
  return copy;
}

/// Writes down every step, and wishes to stop after some.
class Recorder final : public Observer, public EventRecorder {
 public:
  Recorder(Outcome& outcome, kernels::Backend& backend, models::ModelState state, kernels::LossSums& sums,
           const Training& training)
      : outcome_(outcome), backend_(backend), state_(state), sums_(sums), training_(training) {}

  bool step(const StepRecord& record) override {
    outcome_.records.push_back(record);
    backend_.collect(sums_);
    const bool reads = record.consistent || !training_.reads_losses_at_averages;
    outcome_.sums.push_back(reads ? std::exchange(sums_, {}) : kernels::LossSums{});
    outcome_.losses.push_back(outcome_.sums.back().loss);
    outcome_.trajectory.push_back(plain(backend_.memory(), state_.parameters));
    return !record.consistent || record.step < training_.stop_after;
  }
  std::int64_t next_due(std::int64_t step) const override {
    return (step / training_.due_every + 1) * training_.due_every;
  }
  void add(const RecordedSegment& segment) override { outcome_.events.push_back(segment); }

 private:
  Outcome& outcome_;
  kernels::Backend& backend_;
  models::ModelState state_;
  kernels::LossSums& sums_;
  const Training& training_;
};

/// What a rank owns while it trains; the strategy borrows it.
class Rank {
 public:
  Rank(const Examples& examples, const Training& training, comm::Communicator& communicator)
      : training_(training),
        backend_(training.backend ? training.backend(communicator.rank()) : kernels::make_cpu_backend(1)),
        device_world_(make_device_world(communicator)),
        grid_(device_world_ ? *device_world_ : communicator,
              {.data = communicator.size() / stages_of(training), .stages = stages_of(training)}),
        communicator_(grid_.data()),
        strategy_(make_strategy(training.strategy)),
        statistics_group_(communicator_.split(0, communicator_.rank())),
        reducer_(*statistics_group_),
        inputs_(training.inputs.value_or(models::ModelInputs{
            .features = examples.shape, .classes = examples.classes, .target_size = examples.classes > 0 ? 0 : 1})),
        model_(make_model(*backend_, reducer_)),
        stages_(make_stages()),
        squares_(grid_.pipeline()),
        all_squares_(grid_.all()),
        replica_(make_replica()),
        state_shards_(make_state_shards()),
        theta_(replica_->layout().size(), communicator_.shared_allocator()),
        gradient_(replica_->layout().size(), communicator_.shared_allocator()),
        statistics_(replica_->statistics_layout().size(), backend_->memory()),
        source_(make_source(examples, 0, 1)),
        parameters_(hold(&parallel::Stages::parameters, model_->layout())),
        statistics_held_(hold(&parallel::Stages::statistics, model_->statistics_layout())),
        state_(hold_state()),
        optimizer_(optim::make_optimizer(training_.optimizer, *state_, *backend_)) {
    for (const parallel::StateVector& vector : strategy_->state_vectors()) {
      const Buffer& like = vector.of == parallel::StateOf::parameters ? theta_ : statistics_;
      vectors_.push_back({vector, Buffer(like.size(), backend_->memory())});
    }
    model_->initialise_held(kSeed, {*parameters_, *statistics_held_}, state());
    make_workers(examples);
    if (training.resumed != nullptr) {
      const auto rank = static_cast<std::size_t>(communicator.rank());
      resume((*training.resumed)[rank % training.resumed->size()]);
    }
  }

  Outcome train() {
    share_parameters();
    Outcome outcome;
    kernels::LossSums sums;
    const std::int64_t steps_per_epoch = source_->steps_per_epoch(), total_steps = training_.epochs * steps_per_epoch;
    const optim::Schedule schedule(training_.schedule, training_.optimizer.learning_rate, total_steps, steps_per_epoch);
    Recorder recorder(outcome, *backend_, state(), sums, training_);
    TrainContext run{
        {.communicator = communicator_,
         .backend = *backend_,
         .model = *model_,
         .replica = *replica_,
         .optimizer = optimizer_.get(),
         .source = *source_,
         .state = state(),
         .gradient = gradient_.view(),
         .sums = sums,
         .seconds = outcome.seconds,
         .counters = outcome.counters,
         .first_step = first_step_,
         .bucket_bytes = training_.bucket_bytes,
         .leaves = training_.leaves,
         .statistics_reducer = &reducer_,
         .vectors = vectors_,
         .state_shards = state_shards_ ? &*state_shards_ : nullptr,
         .one_theta = node_memory_ != nullptr},
        {.optimizer_settings = training_.optimizer,
         .schedule = schedule,
         .observer = recorder,
         .total_steps = total_steps,
         .threads = threads()},
        {.workers = workers_, .worker_steps = worker_steps_, .recorder = &recorder, .replayed = training_.replayed},
        {}};
    const Stopwatch watch;
    require_fit(*strategy_, *model_, communicator_.size());
    strategy_->train(run);
    outcome.total_seconds = watch.seconds();
    outcome.workspace_bytes = replica_->workspace_bytes();
    outcome.parameters = whole(*parameters_, state().parameters);
    outcome.statistics = whole(*statistics_held_, statistics_.view());
    outcome.optimizer_steps = optimizer_->steps();
    outcome.optimizer_state = std::move(optimizer_->state());
    for (optim::OptimizerState& own : outcome.optimizer_state) {
      outcome.state_floats += own.values.size();
      Buffer all(model_->layout().size());
      std::ranges::copy(whole(*state_, own.values.view()), all.data());
      own.values = std::move(all);
    }
    for (const parallel::StrategyVector& kept : vectors_) {  // in plain memory: the device's goes with this rank
      outcome.vectors.push_back({kept.vector, Buffer(kept.values.size())});
      backend_->memory().copy(kept.values.view(), outcome.vectors.back().values.view());
    }
    outcome.scalars = strategy_->scalars();
    if (device_world_) backend_->device()->synchronise();
    grid_.all().barrier();  // shared memory goes when all are done with it
    return outcome;
  }

 private:
  void resume(const Outcome& stopped) {
    first_step_ = stopped.records.back().step;
    worker_steps_ = training_.resumed->front().records.back().worker_steps;  // rank 0 alone has them
    const data::DataCursor cursor{first_step_ / source_->steps_per_epoch(), first_step_ % source_->steps_per_epoch()};
    source_->seek(cursor);
    for (Worker& worker : workers_) worker.source.seek(cursor);
    Allocator& memory = backend_->memory();
    memory.copy(stopped.parameters, theta_.view());
    memory.copy(stopped.statistics, statistics_.view());
    for (std::size_t i = 0; i < stopped.optimizer_state.size(); ++i) {
      const View stored = stopped.optimizer_state[i].values.view();
      const MutableView own = optimizer_->state()[i].values.view();
      if (state_shards_) {
        take_slices(stored, own);
      } else {
        memory.copy(stored, own);
      }
    }
    for (std::size_t i = 0; i < stopped.vectors.size(); ++i) {
      memory.copy(stopped.vectors[i].values.view(), vectors_[i].values.view());
    }
    optimizer_->set_steps(stopped.optimizer_steps);
    strategy_->restore(stopped.scalars);
  }

  /// Null where the backend has no device.
  std::unique_ptr<comm::Communicator> make_device_world(comm::Communicator& ranks) const {
    if (backend_->device() == nullptr) return nullptr;
    comm::CommunicationSettings settings;
    settings.device_transport = training_.device_transport;
    return comm::make_device_communicator(ranks, *backend_->device(), settings);
  }

  static int stages_of(const Training& training) { return static_cast<int>(training.replica.stages); }

  std::unique_ptr<parallel::Stages> make_stages() const {
    if (training_.replica.stages == 1) return nullptr;
    return std::make_unique<parallel::Stages>(*model_->staged(), training_.replica, communicator_.size());
  }

  std::unique_ptr<parallel::Replica> make_replica() {
    if (!stages_) return std::make_unique<parallel::SingleReplica>(*model_);
    return parallel::make_pipelined_replica({.model = *model_,
                                             .backend = *backend_,
                                             .stages = *stages_,
                                             .settings = training_.replica,
                                             .pipeline = grid_.pipeline(),
                                             .replica = grid_.replica(),
                                             .replicas = communicator_,
                                             .statistics = reducer_,
                                             .clock = steady_clock(),
                                             .held = hold(&parallel::Stages::parameters, model_->layout())});
  }

  std::optional<parallel::StateShards> make_state_shards() const {
    if (strategy_->sharding() == parallel::Sharding::never || communicator_.size() == 1) return {};
    if (!training_.one_theta) {
      if (strategy_->sharding() != parallel::Sharding::always) return {};
      return parallel::StateShards(replica_->layout().size(), training_.bucket_bytes, communicator_.size());
    }
    return parallel::StateShards(replica_->layout().size(), replica_->layout().size() * 4, communicator_.size());
  }

  /// This rank's slices ← those of a whole vector; and a whole vector, or the stage's, from the slices of all ranks.
  void take_slices(View whole, MutableView own) const {
    auto to = own.begin();
    for (const FloatRange& range : state_shards_->ranges_of(communicator_.rank())) {
      to = std::ranges::copy(part(whole, range), to).out;
    }
  }

  std::shared_ptr<const Holding> hold(const ShardMap& (parallel::Stages::*map)() const, const ParameterLayout& layout) {
    if (!stages_) return std::make_shared<WholeHolding>(layout);
    return std::make_shared<MapHolding>((*stages_.*map)(), grid_.all().rank(), squares_);
  }

  std::shared_ptr<const Holding> hold_state() {
    if (!state_shards_) return parameters_;
    return std::make_shared<parallel::SliceHolding>(parameters_, state_shards_->ranges_of(communicator_.rank()),
                                                    parallel::SliceHolding::Place::packed, &all_squares_);
  }

  /// All of a vector of which this rank has a part.
  std::vector<float> whole(const Holding& holding, View own) {
    std::vector<float> all(static_cast<std::size_t>(holding.layout().size()));
    comm::gather(grid_.all(), holding, plain(backend_->memory(), own), all);
    return all;
  }

  /// The ranks go on with one θ.
  void share_parameters() {
    if (!training_.one_theta || !state_shards_) return;
    node_memory_ = communicator_.allocate_on_node(static_cast<std::size_t>(theta_.size()) * sizeof(float));
    if (communicator_.is_root()) std::ranges::copy(theta_.view(), state().parameters.begin());
    communicator_.barrier();
  }

  models::ModelState state() {
    const MutableView own = theta_.view();
    if (node_memory_ == nullptr) return {own, statistics_.view()};
    return {{reinterpret_cast<float*>(node_memory_.get()), own.size()}, statistics_.view()};
  }

  int threads() const { return static_cast<int>(std::max<std::int64_t>(1, training_.strategy.threads)); }

  std::unique_ptr<models::Model> make_model(kernels::Backend& backend, Reducer& reducer) const {
    return training_.model(inputs_, {.backend = backend,
                                     .reducer = reducer,
                                     .steps_together = strategy_->steps_together(),
                                     .seed = kSeed,
                                     .update_rule = training_.optimizer.kind,
                                     .learning_rate = training_.optimizer.learning_rate,
                                     .occurrences = training_.occurrences});
  }

  void make_workers(const Examples& examples) {
    for (const int worker : strategy_->housed_workers(communicator_.rank(), communicator_.size())) {
      data::SourceOptions options = source_options();
      options.rank = worker;
      make_worker(make_source(examples, options));
    }
    if (!strategy_->has_workers(*model_)) return;
    for (int thread = 0; thread < threads(); ++thread) make_worker(make_source(examples, thread, threads()));
  }

  void make_worker(std::unique_ptr<data::BatchSource> source) {
    OwnedWorker& own = owned_.emplace_back();
    own.backend = kernels::make_cpu_backend(1);
    own.model = make_model(*own.backend, own.reducer);
    own.source = std::move(source);
    own.optimizer = optim::make_optimizer(training_.optimizer, model_->layout(), *own.backend);
    own.theta = Buffer(theta_.size());
    own.gradient = Buffer(theta_.size());
    own.statistics = Buffer(statistics_.size());
    workers_.push_back({*own.backend,
                        *own.model,
                        *own.source,
                        workers_.empty() ? *optimizer_ : *own.optimizer,
                        {own.theta.view(), own.statistics.view()},
                        own.gradient.view()});
  }

  data::MicroBatchSharing sharing() const {
    if (training_.accumulate > 1) return data::MicroBatchSharing::sliced;
    if (!strategy_->steps_together()) return data::MicroBatchSharing::own;
    return training_.leaves == 0 && training_.micro_batches < communicator_.size() ? data::MicroBatchSharing::sliced
                                                                                   : data::MicroBatchSharing::whole;
  }

  data::SourceOptions source_options() const {
    const auto part = strategy_->data_shard(communicator_.rank(), communicator_.size()).value_or(Strategy::DataShard{});
    return {.rank = part.number,
            .size = strategy_->workers(communicator_.size()),
            .batch_size = training_.batch_size,
            .micro_batches = std::max(training_.accumulate, training_.micro_batches),
            .sharing = sharing(),
            .leaves = training_.leaves,
            .seed = kSeed};
  }

  std::unique_ptr<data::BatchSource> make_source(const Examples& examples, int lane, int lanes) const {
    data::SourceOptions options = source_options();
    options.lane = lane;
    options.lanes = lanes;
    return make_source(examples, options);
  }

  std::unique_ptr<data::BatchSource> make_source(const Examples& examples, const data::SourceOptions& options) const {
    if (training_.source) return training_.source(options);
    return std::make_unique<MemorySource>(
        examples, Dealing{.options = options, .shuffle = training_.shuffle, .rotation = training_.rotation});
  }

  const Training& training_;
  std::unique_ptr<kernels::Backend> backend_;
  std::unique_ptr<comm::Communicator> device_world_;  ///< null: the backend's memory is plain
  comm::ProcessGrid grid_;
  comm::Communicator& communicator_;  ///< the replicas
  std::unique_ptr<Strategy> strategy_;
  std::unique_ptr<comm::Communicator> statistics_group_;
  comm::CommunicatorReducer reducer_;
  models::ModelInputs inputs_;
  std::unique_ptr<models::Model> model_;
  std::unique_ptr<parallel::Stages> stages_;  ///< null: a replica is one rank
  comm::CommunicatorSquares squares_, all_squares_;
  std::unique_ptr<parallel::Replica> replica_;
  std::optional<parallel::StateShards>
      state_shards_;                        ///< empty: this rank keeps the optimizer's state of all that it holds
  std::shared_ptr<std::byte> node_memory_;  ///< the one θ of these ranks; null: each has its own
  Buffer theta_, gradient_, statistics_;
  std::unique_ptr<data::BatchSource> source_;
  std::shared_ptr<const Holding> parameters_, statistics_held_, state_;  ///< state_: of the optimizer
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<parallel::StrategyVector> vectors_{};
  std::int64_t first_step_ = 0;
  std::vector<std::int64_t> worker_steps_{};
  struct OwnedWorker {
    std::unique_ptr<kernels::Backend> backend;
    LocalReducer reducer;
    std::unique_ptr<models::Model> model;
    std::unique_ptr<data::BatchSource> source;
    std::unique_ptr<optim::Optimizer> optimizer;
    Buffer theta, gradient, statistics;
  };
  std::deque<OwnedWorker> owned_;
  std::vector<Worker> workers_;
};

template <typename Value>
double largest(const std::vector<Value>& a, const std::vector<Value>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    difference = std::isnan(apart) ? INFINITY : std::max(difference, apart);
  }
  return difference;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace

StrategySettings strategy_of(std::string keys) {
  std::ranges::replace(keys, ',', '\n');
  StrategySettings settings;
  parse_config({.path = "test.toml", .text = keys, .overrides = {}},
               [&](ConfigVisitor& visitor) { settings.describe(visitor); });
  return settings;
}

std::vector<Outcome> train(const Examples& examples, const Training& training) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(training.ranks));
  const auto body = [&](comm::Communicator& communicator) {
    outcomes[static_cast<std::size_t>(communicator.rank())] = Rank(examples, training, communicator).train();
  };
  comm::run_as_threads(training.ranks, body, /*timeout_seconds=*/60, training.ranks_per_node);
  return outcomes;
}

std::vector<double> settled_losses(const std::vector<Outcome>& ranks) {
  std::vector<double> losses;
  for (std::size_t step = 0; step < ranks.front().sums.size(); ++step) {
    kernels::LossSums sums;
    for (const Outcome& rank : ranks) sums += rank.sums[step];
    sums.unsettle();
    losses.push_back(sums.loss);
  }
  return losses;
}

std::vector<double> losses_over_ranks(const std::vector<Outcome>& ranks) {
  std::vector<double> losses(ranks.front().losses.size());
  for (const Outcome& rank : ranks) {
    for (std::size_t i = 0; i < losses.size(); ++i) losses[i] += rank.losses.at(i);
  }
  return losses;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) { return largest(a, b); }
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) { return largest(a, b); }

bool ranks_agree(const std::vector<Outcome>& ranks) {
  return std::ranges::all_of(ranks, [&](const Outcome& rank) {
    return same_bits(rank.parameters, ranks.front().parameters) && same_bits(rank.statistics, ranks.front().statistics);
  });
}

}  // namespace unisono::strategies
