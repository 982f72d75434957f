#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/models/in_place.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/optim/batch_method.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/optim/schedule.hpp"
#include "unisono/parallel/fault.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/strategies/catalog.hpp"
#include "unisono/strategies/events.hpp"
#include "unisono/strategies/traffic.hpp"

namespace unisono::strategies {

/// One finished step of this rank, for the observer.
struct StepRecord {
  std::int64_t step = 0;   ///< steps made, this one included
  std::int64_t epoch = 0;  ///< epoch of the batch
  bool last_of_epoch = false;
  bool consistent = true;  ///< whether all ranks hold the same model now, so that it may be evaluated and checkpointed
  Index global_size = 0;   ///< examples over all ranks, of all steps since the previous record
  double learning_rate = 0;
  bool gradient_is_whole = true;  ///< whether g is the gradient of the last of these steps
  /// Steps made by each worker, if workers go at their own pace; else empty. On rank 0 alone: no rank keeps anything of
  /// each of the others.
  std::vector<std::int64_t> worker_steps = {};
  /// What a whole-batch method did in this step. Where the iteration ends the method, this step is the last one.
  std::optional<optim::BatchIteration> iteration = {};
};

/// Called by the strategy after its steps: writes metrics, shows progress, evaluates, checkpoints, and decides whether
/// to stop. `step` is collective where the record is consistent.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Takes in a step. \return whether to go on; the same on every rank for consistent records, true for other records
  virtual bool step(const StepRecord& record) = 0;
  /// The first step after step `step` that needs a consistent model (report, evaluation, checkpoint). The strategy may
  /// pass the steps in between as one record, of the last of these steps.
  virtual std::int64_t next_due(std::int64_t step) const = 0;
  /// Whether the observer may read g after the step that follows step `step`: it reports there. The same where a run
  /// was resumed, so that its reports are.
  virtual bool reads_gradient(std::int64_t step) const { return next_due(step) == step + 1; }
};

/// What one of several workers of a rank trains with: a thread that computes gradients of its own, or a worker of a
/// replay.
struct Worker {
  kernels::Backend& backend;  ///< the worker's vectors lie in this backend's memory
  models::Model& model;
  data::BatchSource& source;  ///< yields the batches of this worker's steps
  optim::Optimizer& optimizer;
  models::ModelState state;  ///< the worker's own copy of θ and of the running statistics
  MutableView gradient;      ///< the worker's own g
};

/// What all strategies need beyond their steps; owned by the run.
struct RunTerms {
  const optim::OptimizerSettings& optimizer_settings;  ///< settings from which StepTerms::optimizer was made
  const optim::Schedule& schedule;
  Observer& observer;
  std::int64_t total_steps;  ///< the run ends when so many are made
  int threads = 1;           ///< threads that this rank may use
  std::uint64_t seed = 0;    ///< the run's seed
};

/// What strategies with workers that go at their own pace need.
struct WorkerTerms {
  std::span<Worker> workers = {};  ///< one for each thread that computes gradients; see Strategy::has_workers
  /// StepRecord::worker_steps of the run that is resumed; to be ignored if the number of workers has changed.
  std::vector<std::int64_t> worker_steps = {};
  EventRecorder* recorder = nullptr;  ///< receives the events of servers or workers; null: they are not recorded
  /// The order in which servers or workers must handle messages; null: as messages arrive.
  const EventRecord* replayed = nullptr;
};

/// What strategies that minimise the loss of the whole set need.
struct WholeSetTerms {
  optim::BatchMethod* method = nullptr;    ///< the method; null for all other optimizers
  models::Objective* objective = nullptr;  ///< the loss of the whole set, with penalties; null where `method` is
  data::Dataset* data = nullptr;           ///< the set that is trained on, for strategies that read it themselves
};

/// All that `Strategy::train` needs.
struct TrainContext : parallel::StepTerms, RunTerms, WorkerTerms, WholeSetTerms {};

/// A strategy cannot train a model on so many ranks, and another one may: `require_fit` says which.
class UnfitStrategy : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// A way of training in parallel. Owns the training loop.
class Strategy {
 public:
  virtual ~Strategy() = default;
  /// Checks that the strategy can train a model, before a run writes anything. \throws UnfitStrategy where another
  /// strategy can, ConfigError where other settings are to be changed
  virtual void require(const models::Model& model, int ranks) const;
  /// Gives each rank rows of θ, if the strategy does so; `train` then gets a state of as many floats as the result
  /// says. Null: every replica holds all of θ. Collective. \param model and communicator must outlive the result
  virtual std::shared_ptr<parallel::RowHolding> divide(const models::Model& /*model*/, const data::DatasetInfo&,
                                                       comm::Communicator& /*communicator*/) {
    return nullptr;
  }
  /// Trains until total_steps are made or the observer says so; the ranks then hold the same model. Collective.
  virtual void train(TrainContext& run) = 0;
  /// A rank's part of the training examples: part `number` of `parts`.
  struct DataShard {
    int number = 0, parts = 1;
  };
  /// The part of the training examples that a rank trains on; nothing: the rank trains on none.
  virtual std::optional<DataShard> data_shard(int rank, int ranks) const { return DataShard{rank, ranks}; }
  /// How many parts the training examples are divided into: one for each worker. Rank 0 always has one.
  int workers(int ranks) const { return data_shard(0, ranks)->parts; }
  /// Into how many portions the strategy cuts the training set, where each step takes the whole set; else 0.
  virtual int portions(const models::Model&, const data::DatasetInfo&) const { return 0; }
  /// How many parameter servers hold θ; 0: the strategy has none.
  virtual int servers(int /*ranks*/) const { return 0; }
  /// How many lists of events a record of the run has in each segment; see RecordedSegment.
  virtual int event_lists(int ranks) const { return servers(ranks); }
  const StrategyTraits& traits() const { return traits_; }
  bool steps_together() const { return traits_.steps_together; }
  /// Whether each rank keeps the optimizer's state of its part of θ alone, and makes that part of each step.
  virtual parallel::Sharding sharding() const { return parallel::Sharding::never; }
  /// Whether the ranks' optimizer states differ even when they hold the same θ: a checkpoint then stores each rank's
  /// state.
  virtual bool optimizer_state_is_local() const { return false; }
  /// The vectors that the strategy keeps in addition to θ, g and the optimizer's state.
  virtual std::vector<parallel::StateVector> state_vectors() const { return {}; }
  /// All other numbers that the strategy keeps from one consistent record to the next, the same on all ranks; for
  /// checkpoints.
  virtual std::vector<double> scalars() const { return {}; }
  /// Takes back what `scalars` returned; called before `train`.
  virtual void restore(const std::vector<double>& /*scalars*/) {}
  /// Whether the strategy trains a model by in-place updates of θ, which need neither a gradient nor an optimizer.
  bool updates_in_place(const models::Model& model) const;
  /// Whether each thread of a rank computes gradients of its own batches, and so needs a Worker. Otherwise the threads
  /// share the work on one gradient.
  virtual bool has_workers(const models::Model&) const { return false; }
  /// The workers that run on this rank when a replay puts several on one rank: numbers of the workers' parts of the
  /// data. Each worker needs a Worker of its own. Empty: the rank trains with the run's model and source.
  virtual std::vector<int> housed_workers(int /*rank*/, int /*ranks*/) const { return {}; }
  /// Why the strategy cannot train on GPUs; empty: it can.
  virtual std::string obstacle_to_gpus() const { return {}; }
  /// What ranks without examples of any whole step would do, if this spoils the training; empty: it does not.
  virtual std::string need_of_examples(const models::Model&) const { return {}; }
  /// Estimated bytes that the strategy allocates on a rank in addition to θ, g and the optimizer's state.
  /// \param states how many vectors of θ's size the optimizer keeps
  virtual std::int64_t extra_bytes(const models::Model&, int /*ranks*/, int /*states*/) const { return 0; }
  /// The same of all ranks together, of which some may need more than others.
  virtual std::int64_t extra_bytes_of_all(const models::Model& model, int ranks, int states) const {
    return ranks * extra_bytes(model, ranks, states);
  }
  /// What several ranks send each other while they train a model by gradients; nothing: nobody has said it yet.
  /// \param states how many vectors of θ's size the optimizer keeps
  virtual std::optional<Traffic> traffic(const models::Model&, int /*ranks*/, int /*states*/,
                                         const data::DatasetInfo& /*data*/) const {
    return {};
  }

 private:
  friend std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings);
  StrategyTraits traits_;  ///< traits from the strategy's row in the table
};

/// Checks strategy.require; where the strategy cannot train the model, the message names the kinds that can. \throws
/// ConfigError
void require_fit(const Strategy& strategy, const models::Model& model, int ranks);

/// Checks Model::require_gradient for a strategy. \throws UnfitStrategy
void require_gradient(const models::Model& model);

/// The `make` of a strategy's row (StrategyKind). \tparam Made the strategy \tparam Own the own settings that its
/// constructor takes; void: it takes all settings, or none
template <typename Made, typename Own = void>
std::unique_ptr<Strategy> construct(const StrategySettings& settings) {
  if constexpr (!std::is_void_v<Own>) {
    return std::make_unique<Made>(settings.own.of<Own>());
  } else if constexpr (std::is_constructible_v<Made, const StrategySettings&>) {
    return std::make_unique<Made>(settings);
  } else {
    return std::make_unique<Made>();
  }
}

/// The strategy that settings.kind names. \throws ConfigError
std::unique_ptr<Strategy> make_strategy(const StrategySettings& settings);

}  // namespace unisono::strategies
