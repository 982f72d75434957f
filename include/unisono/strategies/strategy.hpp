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
#include "unisono/optim/optimizer.hpp"
#include "unisono/optim/schedule.hpp"
#include "unisono/strategies/catalog.hpp"
#include "unisono/strategies/division.hpp"
#include "unisono/strategies/events.hpp"
#include "unisono/strategies/fault.hpp"
#include "unisono/strategies/serving.hpp"

namespace unisono::strategies {

/// Where the seconds of this rank went; they add up to the total. The strategy adds to the first five, the observer to
/// evaluation and checkpoint, and whoever knows the total sets `other` to what remains of it.
struct Seconds {
  double compute = 0;                ///< forward and backward passes, without what they waited for messages
  double exposed_communication = 0;  ///< waiting for messages, all ranks being there
  double straggler_wait = 0;         ///< waiting for ranks that were not there yet
  double input = 0;                  ///< waiting for the batch source
  double optimizer = 0;
  double evaluation = 0, checkpoint = 0;
  double other = 0;

  double sum() const {
    return compute + exposed_communication + straggler_wait + input + optimizer + evaluation + checkpoint + other;
  }
};

/// One finished step of this rank, for the observer.
struct StepRecord {
  std::int64_t step = 0;   ///< steps made, this one included
  std::int64_t epoch = 0;  ///< of the batch
  bool last_of_epoch = false;
  bool consistent = true;  ///< all ranks hold the same model now: it may be evaluated and checkpointed
  Index global_size = 0;   ///< examples of the step, over all ranks; of all steps since the record before
  double learning_rate = 0;
  std::vector<std::int64_t> worker_steps = {};  ///< where workers go at their own pace: what each has made
};

/// What a run does with finished steps: metrics, progress, evaluation, checkpoints, the wish to stop. Collective where
/// the record is consistent.
class Observer {
 public:
  virtual ~Observer() = default;
  /// \return whether to go on; the same on every rank for consistent records, true for the others
  virtual bool step(const StepRecord& record) = 0;
  /// The first step after this one at which it will want a consistent model: those between may be recorded together,
  /// by the last of them.
  virtual std::int64_t next_due(std::int64_t step) const = 0;
};

/// What one thread of a rank computes gradients with, where several do.
struct Worker {
  kernels::Backend& backend;  ///< in whose memory its vectors lie
  models::Model& model;
  data::BatchSource& source;  ///< of the worker's own steps
  optim::Optimizer& optimizer;
  models::ModelState state;  ///< of its own, to compute with
  MutableView gradient;      ///< likewise
};

/// What a strategy counts of its own doing on this rank, for the summary; −1: it has nothing to say of it.
struct StrategyCounters {
  std::int64_t averaged_bytes = -1;                   ///< of vectors that were given to averages
  std::int64_t passed_bytes = -1;                     ///< of parameters that went on to another rank
  std::int64_t touched_rows = -1, row_conflicts = 0;  ///< of θ, in the steps that were watched (see ConflictMeter)
  std::vector<ServedShard> shards = {};               ///< of this rank's servers
};

/// Who holds values of their own of a vector that a strategy keeps.
enum class StateScope {
  common,   ///< nobody: all ranks hold the same
  replica,  ///< each replica of the model that is trained
  rank      ///< each rank
};

/// A vector of θ's size that a strategy keeps from step to step, and that checkpoints keep by its scope.
struct StateVector {
  std::string name;  ///< no optimizer's vector has it
  StateScope scope = StateScope::common;
};

/// One that is kept, in the backend's memory.
struct KeptVector {
  StateVector vector;
  Buffer values;
};

/// All that a strategy needs, borrowed. Vectors lie in the backend's memory, which may be a device's.
struct TrainContext {
  comm::Communicator& communicator;  ///< of the replicas: each rank has one, or the same part of one
  kernels::Backend& backend;
  models::Model& model;
  optim::Optimizer& optimizer;
  const optim::OptimizerSettings& optimizer_settings;  ///< that it was made from
  data::BatchSource& source;
  const optim::Schedule& schedule;
  Observer& observer;
  models::ModelState state;  ///< θ on the CPU from communicator.shared_allocator()
  MutableView gradient;      ///< g, likewise; empty where the strategy updates the model in place
  kernels::LossSums& sums;   ///< this rank's losses since the observer last read them, after backend.collect
  Seconds& seconds;
  StrategyCounters& counters;
  std::int64_t first_step;   ///< steps made before (a resumed run)
  std::int64_t total_steps;  ///< where to stop
  Index bucket_bytes = 0;    ///< 0: chosen
  /// Sums global batch statistics inside the model's passes: its seconds are no computation. May be null.
  const comm::CommunicatorReducer* statistics_reducer = nullptr;
  int threads = 1;                     ///< that this rank may use
  std::span<KeptVector> vectors = {};  ///< those of Strategy::state_vectors, in their order
  std::span<Worker> workers = {};      ///< one for each thread that computes gradients; see Strategy::has_workers
  /// A resumed run's StepRecord::worker_steps, where it has as many workers as it had.
  std::vector<std::int64_t> worker_steps = {};
  Fault* fault = nullptr;                 ///< makes this rank slow; null: nothing does
  EventRecorder* recorder = nullptr;      ///< of servers' events; null: nobody wants them
  const EventRecord* replayed = nullptr;  ///< the order that servers are to keep to; null: as messages come
  const Clock& clock = steady_clock();    ///< of all seconds that are counted here
};

/// A way of training in parallel. Owns the training loop.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Whether it can train this model, before a run writes anything. \throws ConfigError where it cannot
  virtual void require(const models::Model& model, int ranks) const;
  /// Divides the model among the ranks, where that is how it trains; it then needs rows of θ as Division says, and
  /// `train` takes a state of its size. Null: every rank holds all of θ. Collective.
  virtual Division* divide(const models::Model&, const data::DatasetInfo&, comm::Communicator&) { return nullptr; }
  /// Collective. Ends when total_steps are made or the observer says so; every rank then holds the same model.
  virtual void train(TrainContext& run) = 0;
  /// A rank's part of the training examples.
  struct DataShard {
    int number = 0, parts = 1;
  };
  /// Null for a rank that trains on none.
  virtual std::optional<DataShard> data_shard(int rank, int ranks) const { return DataShard{rank, ranks}; }
  /// How many parts the training examples have; rank 0 has one.
  int workers(int ranks) const { return data_shard(0, ranks)->parts; }
  /// How many servers hold θ; 0: no such thing.
  virtual int servers(int /*ranks*/) const { return 0; }
  const StrategyTraits& traits() const { return traits_; }
  bool steps_together() const { return traits_.steps_together; }
  /// Whether ranks keep optimizer states of their own even where they hold the same model: a checkpoint needs each.
  virtual bool optimizer_state_is_local() const { return false; }
  /// What it keeps beside θ, g and the optimizer's state.
  virtual std::vector<StateVector> state_vectors() const { return {}; }
  /// Whether it lets this model update its parameters in place, so that there need be no gradient and no optimizer.
  bool updates_in_place(const models::Model& model) const;
  /// Whether this rank's threads compute gradients of such a model each on its own, so that each needs a worker; they
  /// otherwise share the work of one gradient.
  virtual bool has_workers(const models::Model&) const { return false; }
  /// The workers that this rank is home to, by their parts of the data, where each needs a model and a source of its
  /// own; none: this rank works with the run's.
  virtual std::vector<int> housed_workers(int /*rank*/, int /*ranks*/) const { return {}; }
  /// What a rank keeps beside θ, g and the optimizer's state, about.
  /// \param states vectors of θ's size that the optimizer keeps
  virtual std::int64_t extra_bytes(const models::Model&, int /*ranks*/, int /*states*/) const { return 0; }

 private:
  friend std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings);
  StrategyTraits traits_;  ///< of its row in the table
};

/// \throws ConfigError
std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings);

}  // namespace unisono::strategies
