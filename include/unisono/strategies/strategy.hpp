#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/optim/batch_method.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/optim/schedule.hpp"
#include "unisono/strategies/catalog.hpp"
#include "unisono/strategies/division.hpp"
#include "unisono/strategies/events.hpp"
#include "unisono/strategies/fault.hpp"
#include "unisono/strategies/replica.hpp"
#include "unisono/strategies/serving.hpp"
#include "unisono/strategies/state_shards.hpp"

namespace unisono::strategies {

/// Where the seconds of this rank went; they add up to the total. The strategy adds to the first six, the observer to
/// evaluation and checkpoint, and `other` is set to the rest where the total is known.
struct Seconds {
  double compute = 0;                ///< forward and backward passes, less the waiting for messages inside them
  double exposed_communication = 0;  ///< waiting for messages while all ranks are present
  double straggler_wait = 0;         ///< waiting for ranks that had not arrived yet
  double bubble = 0;                 ///< waiting for other stages of the pipeline
  double input = 0;                  ///< waiting for the batch source
  double optimizer = 0;
  double evaluation = 0, checkpoint = 0;
  double other = 0;

  double sum() const {
    return compute + exposed_communication + straggler_wait + bubble + input + optimizer + evaluation + checkpoint +
           other;
  }
};

/// One finished step of this rank, for the observer.
struct StepRecord {
  std::int64_t step = 0;   ///< steps made, this one included
  std::int64_t epoch = 0;  ///< of the batch
  bool last_of_epoch = false;
  bool consistent = true;  ///< all ranks hold the same model now, so it may be evaluated and checkpointed
  Index global_size = 0;   ///< examples over all ranks, of all steps since the previous record
  double learning_rate = 0;
  std::vector<std::int64_t> worker_steps = {};  ///< made by each worker, if they go at their own pace; else empty
  /// Of a whole-batch method. Where it ends the method, this is the last step.
  std::optional<optim::BatchIteration> iteration = {};
};

/// Called by the strategy after its steps: writes metrics, shows progress, evaluates, checkpoints, and decides whether
/// to stop. `step` is collective where the record is consistent.
class Observer {
 public:
  virtual ~Observer() = default;
  /// \return whether to go on; the same on every rank for consistent records, true for the others
  virtual bool step(const StepRecord& record) = 0;
  /// The first step after this one that needs a consistent model (report, evaluation, checkpoint). The strategy may
  /// pass the steps in between as one record, that of the last of them.
  virtual std::int64_t next_due(std::int64_t step) const = 0;
};

/// What one of several workers of a rank trains with: a thread that computes gradients of its own, or a worker of a
/// replay.
struct Worker {
  kernels::Backend& backend;  ///< its vectors lie in this backend's memory
  models::Model& model;
  data::BatchSource& source;  ///< yields the batches of this worker's steps
  optim::Optimizer& optimizer;
  models::ModelState state;  ///< its own copy of θ and of the running statistics
  MutableView gradient;      ///< its own g
};

/// What strategy "batch" counts on this rank since the run began or was resumed.
struct BatchCounters {
  std::int64_t passes = 0, evaluations = 0;  ///< the same on all ranks; see optim::BatchIteration
  std::int64_t products = 0, hessians = 0;   ///< likewise
  std::int64_t portions = 0, cancelled = 0;  ///< that this rank finished; that it was told to leave
  std::int64_t moved = 0, repeated = 0;      ///< portions, counted on rank 0; see Dealer
  std::int64_t nodes = 0;                    ///< of the trees that were added up, over all ranks
  std::int64_t sent_bytes = 0;               ///< of vectors
};

/// What strategies without a centre count on this rank since the run began or was resumed.
struct GossipCounters {
  std::int64_t sent_bytes = -1;  ///< to neighbours, but for the consensus; −1: parameters are not mixed
  /// ‖θ_r − mean‖² and ‖mean‖² of what this rank holds, when the consensus was last formed.
  double difference_squares = 0, mean_squares = 0;
  double second_singular_value = 0;  ///< of the product of `rounds` mixing matrices; the same on all ranks
  int rounds = 1;                    ///< exchanges after which the mixing matrices recur; likewise
  std::int64_t exchanges = -1;       ///< that this rank began with one other; −1: all ranks exchange in step
  /// Of each step at a rank's own pace: exchanges that changed θ_r between the reading of θ_r for its gradient and the
  /// step itself.
  Histogram staleness = {};
  std::vector<std::int64_t> worker_steps = {};  ///< as in StepRecord, when the consensus was last formed
};

/// What compressed gradients or changes count on this rank since the run began or was resumed.
struct CompressionCounters {
  std::int64_t sent_bytes = -1;  ///< to other ranks, of messages; −1: nothing is compressed
  std::int64_t plain_bytes = 0;  ///< that allreduces of the same floats, or pushes, would have sent without it
};

/// What gradient sharing counts on this rank since the run began or was resumed.
struct SharingCounters {
  std::int64_t sent_bytes = -1;  ///< of updates: its own, and others' that it passed on; −1: updates are not shared
  std::int64_t plain_bytes = 0;  ///< that whole vectors of θ's size would have taken in their place
  std::int64_t updates = 0;      ///< that it shared
  Histogram staleness = {};      ///< of others' updates that it applied
};

/// Counters of a strategy on this rank, for the summary; −1: the strategy does not count this.
struct StrategyCounters {
  std::int64_t averaged_bytes = -1;                   ///< of vectors that were averaged over the ranks
  std::int64_t node_averaged_bytes = -1;              ///< over the ranks of a node, between those averages
  std::int64_t passed_bytes = -1;                     ///< of parameters that were sent on to another rank (stratified)
  std::int64_t boundary_bytes = -1;                   ///< of activations and gradients that were sent between stages
  std::int64_t touched_rows = -1, row_conflicts = 0;  ///< rows of θ, in the steps that ConflictMeter sampled
  std::vector<ServedShard> shards = {};               ///< of this rank's servers
  BatchCounters batch = {};
  GossipCounters gossip = {};
  CompressionCounters compression = {};
  SharingCounters sharing = {};

  /// Whether ranks have parameters of their own, whose consensus is the model.
  bool have_consensus() const { return gossip.sent_bytes >= 0 || sharing.sent_bytes >= 0; }
};

/// Over which ranks the values of a strategy's vector differ.
enum class StateScope {
  common,   ///< over none: all ranks hold the same values
  replica,  ///< each replica of the model has its own
  rank      ///< each rank has its own
};

/// What a strategy's vector is laid out like: θ, or the running statistics.
enum class StateOf { parameters, statistics };

/// A vector that a strategy keeps from step to step. Checkpoints store one copy, or one for each replica or rank, by
/// its scope.
struct StateVector {
  std::string name;  ///< different from the names of all optimizers' vectors
  StateScope scope = StateScope::common;
  StateOf of = StateOf::parameters;
  /// Of vectors that differ: their sum over the ranks is what matters, so that a resumed run keeps it on another number
  /// of ranks. Of others, each rank takes the mean.
  bool adds_up = false;
};

/// How many of these are of θ's size.
int vectors_of_parameters(const std::vector<StateVector>& vectors);

/// A StateVector and its values, in the backend's memory.
struct KeptVector {
  StateVector vector;
  Buffer values;
};

/// All that `Strategy::train` needs; owned by the run. Vectors lie in the backend's memory, which may be a device's.
struct TrainContext {
  comm::Communicator& communicator;  ///< over the replicas: each rank holds a whole replica, or the same part of one
  kernels::Backend& backend;
  models::Model& model;
  Replica& replica;  ///< of the model: what is trained
  /// Null where there is a `method`. Where there are `state_shards`, its vectors are this rank's shards.
  optim::Optimizer* optimizer;
  const optim::OptimizerSettings& optimizer_settings;  ///< from which it was made
  data::BatchSource& source;
  const optim::Schedule& schedule;
  Observer& observer;
  models::ModelState state;  ///< θ and running statistics; on the CPU, θ comes from communicator.shared_allocator()
  MutableView gradient;      ///< g, from the same allocator as θ; empty where the model is updated in place
  /// This rank's losses since the observer last took them, which it does at consistent records; complete after
  /// backend.collect.
  kernels::LossSums& sums;
  Seconds& seconds;
  StrategyCounters& counters;
  std::int64_t first_step;   ///< steps made before `train`: 0, or those of the run that is resumed
  std::int64_t total_steps;  ///< the run ends when so many are made
  Index bucket_bytes = 0;    ///< of a gradient bucket; 0: chosen automatically
  int leaves = 0;            ///< of the tree by which gradients are summed reproducibly; 0: fast sums
  /// Sums batch statistics over the ranks inside the model's passes; its seconds are subtracted from `compute`. May be
  /// null.
  const comm::CommunicatorReducer* statistics_reducer = nullptr;
  int threads = 1;                     ///< that this rank may use
  std::uint64_t seed = 0;              ///< of the run
  std::span<KeptVector> vectors = {};  ///< those of Strategy::state_vectors, in the same order
  std::span<Worker> workers = {};      ///< one for each thread that computes gradients; see Strategy::has_workers
  /// StepRecord::worker_steps of the run that is resumed; to be ignored if the number of workers has changed.
  std::vector<std::int64_t> worker_steps = {};
  double flops_per_example = 0;               ///< of the whole model, forward and backward; 0: unknown
  const StateShards* state_shards = nullptr;  ///< of the optimizer, among the ranks; null: each keeps its whole state
  bool one_theta = false;  ///< the ranks share one copy of θ, to which each writes its shard; there is one bucket then
  Fault* fault = nullptr;  ///< slows this rank down on purpose; null: it is not slowed down
  EventRecorder* recorder = nullptr;       ///< receives the events of servers or workers; null: they are not recorded
  const EventRecord* replayed = nullptr;   ///< the order in which they must handle messages; null: as they arrive
  const Clock& clock = steady_clock();     ///< measures all seconds that are counted here
  optim::BatchMethod* method = nullptr;    ///< of strategies that minimise the loss of the whole set; else null
  models::Objective* objective = nullptr;  ///< that loss; null where `method` is
  data::Dataset* data = nullptr;           ///< the set that is trained on, for those that read it themselves
};

/// A way of training in parallel. Owns the training loop.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Checks that it can train this model; called before a run writes anything. \throws ConfigError if it cannot
  virtual void require(const models::Model& model, int ranks) const;
  /// Shards the model over the ranks, if this strategy does so; `train` then gets a state of Division::size() floats.
  /// The strategy owns the result. Null: every rank holds all of θ. Collective.
  virtual Division* divide(const models::Model&, const data::DatasetInfo&, comm::Communicator&) { return nullptr; }
  /// Trains until total_steps are made or the observer says so; the ranks then hold the same model. Collective.
  virtual void train(TrainContext& run) = 0;
  /// A rank's part of the training examples: part `number` of `parts`.
  struct DataShard {
    int number = 0, parts = 1;
  };
  /// Null for a rank that trains on none.
  virtual std::optional<DataShard> data_shard(int rank, int ranks) const { return DataShard{rank, ranks}; }
  /// How many parts the training examples are divided into: one for each worker. Rank 0 always has one.
  int workers(int ranks) const { return data_shard(0, ranks)->parts; }
  /// How many parameter servers hold θ; 0: the strategy has none.
  virtual int servers(int /*ranks*/) const { return 0; }
  /// How many lists of events a record of the run has in each segment; see RecordedSegment.
  virtual int event_lists(int ranks) const { return servers(ranks); }
  const StrategyTraits& traits() const { return traits_; }
  bool steps_together() const { return traits_.steps_together; }
  /// Where each rank keeps the optimizer's state of its part of θ alone, and makes that part of each step.
  virtual Sharding sharding() const { return Sharding::never; }
  /// Whether the ranks' optimizer states differ even when they hold the same θ: a checkpoint then stores each of them.
  virtual bool optimizer_state_is_local() const { return false; }
  /// The vectors that it keeps in addition to θ, g and the optimizer's state.
  virtual std::vector<StateVector> state_vectors() const { return {}; }
  /// All other numbers that it keeps from one consistent record to the next, the same on all ranks; for checkpoints.
  virtual std::vector<double> scalars() const { return {}; }
  /// Takes back what `scalars` returned; called before `train`.
  virtual void restore(const std::vector<double>& /*scalars*/) {}
  /// Whether it trains this model by in-place updates of θ, which need neither a gradient nor an optimizer.
  bool updates_in_place(const models::Model& model) const;
  /// Whether each thread of a rank computes gradients of its own batches, and so needs a Worker. Otherwise the threads
  /// share the work on one gradient.
  virtual bool has_workers(const models::Model&) const { return false; }
  /// The workers that run on this rank when a replay puts several on one: numbers of their parts of the data. Each
  /// needs a Worker of its own. Empty: the rank trains with the run's model and source.
  virtual std::vector<int> housed_workers(int /*rank*/, int /*ranks*/) const { return {}; }
  /// Why it cannot train on GPUs; empty: it can.
  virtual std::string obstacle_to_gpus() const { return {}; }
  /// What ranks without examples of any whole step would do, if that spoils the training; empty: it does not.
  virtual std::string need_of_examples(const models::Model&) const { return {}; }
  /// Estimated bytes that it allocates on a rank in addition to θ, g and the optimizer's state.
  /// \param states how many vectors of θ's size the optimizer keeps
  virtual std::int64_t extra_bytes(const models::Model&, int /*ranks*/, int /*states*/) const { return 0; }

 private:
  friend std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings);
  StrategyTraits traits_;  ///< from its row in the table
};

/// The strategy that settings.kind names. \throws ConfigError
std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings);

}  // namespace unisono::strategies
