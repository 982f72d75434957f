#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "machine/placement.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/process_grid.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::experiment {

class WeightAverage;

/// A set that the ranks of each node share, where it is resident and the node has a window for it. Its construction is
/// collective.
class SharedDataset {
 public:
  /// \param trained a trained model's preprocessing, or null: it is fitted on the training examples
  SharedDataset(comm::Communicator& world, const data::DataSettings& settings, std::uint64_t seed,
                const data::Preprocessing* trained = nullptr);
  SharedDataset(const SharedDataset&) = delete;
  SharedDataset& operator=(const SharedDataset&) = delete;

  data::Dataset& operator*() const { return *dataset_; }
  data::Dataset* operator->() const { return dataset_.get(); }

 private:
  std::vector<std::shared_ptr<std::byte>> windows_;  // they and the share outlive the set
  data::NodeShare share_;
  std::unique_ptr<data::Dataset> dataset_;
};

models::ModelInputs inputs_of(const data::DatasetInfo& info);

/// Where a model is made.
struct ModelPlace {
  comm::Communicator& group;  ///< the ranks that have it together
  const NodePlace& place;
  Log& log;
  const Clock& clock = steady_clock();
};

/// A model on this rank, ready to be evaluated: what train, evaluate, predict and bench share. Its construction is
/// collective, and checks that all ranks order θ alike.
struct ModelParts {
  /// \param data that it is to be trained on; null: it is only to be applied, or timed
  ModelParts(const ModelPlace& where, const Config& config, const models::ModelInputs& inputs,
             data::Dataset* data = nullptr);

  void initialise(std::uint64_t seed);
  models::ModelState state() { return {.parameters = parameters.view(), .statistics = statistics.view()}; }
  /// How many replicas train, and whether this rank's does.
  int workers() const { return strategy->workers(grid.data().size()); }
  bool trains() const { return strategy->data_shard(grid.data().rank(), grid.data().size()).has_value(); }
  /// How batches reach the backend.
  data::Delivery delivery() const {
    return {.memory = &backend->batch_memory(),
            .keep = [this](const StoredFeatures& features) { return backend->keep(features); }};
  }
  /// "AMD EPYC 9R14, CPU, AVX-512, 2 threads": what bit-for-bit equality depends on
  std::string device() const { return cpu_name() + ", " + backend->description(); }

  Placement placement;
  std::unique_ptr<strategies::Strategy> strategy;
  std::unique_ptr<kernels::Backend> backend;
  std::unique_ptr<comm::Communicator> device_world;  ///< where the backend has memory of its own; else null
  comm::ProcessGrid grid;                            ///< of all ranks; its groups take the backend's memory
  /// The replicas again, for batch statistics: layers' messages never mix with the strategy's.
  std::unique_ptr<comm::Communicator> statistics_group;
  comm::CommunicatorReducer statistics_reducer;
  std::unique_ptr<models::Model> model;
  strategies::Division* division = nullptr;  ///< where the strategy divides θ; null: every rank holds all of it
  Buffer parameters;                         ///< θ, from vector_memory(); the rank's own part of it where divided
  Buffer statistics;
  std::vector<float> class_weights;  ///< [K] of the losses that it is trained on; empty: all are 1
};

/// What training needs on top.
struct TrainingParts {
  TrainingParts(ModelParts& parts, const Config& config);
  ~TrainingParts();

  Buffer gradient;  ///< g, beside θ; empty where the model is updated in place
  std::unique_ptr<optim::Optimizer> optimizer;
  std::vector<strategies::KeptVector> vectors;  ///< the strategy's
  std::unique_ptr<WeightAverage> average;       ///< null: weights are not averaged
  kernels::LossSums sums;
  strategies::Seconds seconds;
  strategies::StrategyCounters counters;
};

/// What workers that compute each on their own have beside the rank's parts.
class WorkerParts {
 public:
  /// Nothing where the strategy has no such workers. \param optimizer the rank's; the first thread's, too
  WorkerParts(ModelParts& parts, TrainingParts& training, const Config& config, const models::ModelInputs& inputs,
              data::Dataset& data);

  std::span<strategies::Worker> workers() { return workers_; }

 private:
  /// What all of them are made from.
  struct WorkerTerms {
    ModelParts& parts;
    TrainingParts& training;
    const Config& config;
    const models::ModelInputs& inputs;
    data::Dataset& data;
  };
  struct Owned {
    std::unique_ptr<kernels::Backend> backend;
    LocalReducer reducer;
    std::unique_ptr<models::Model> model;
    std::unique_ptr<data::BatchSource> source;
    std::unique_ptr<optim::Optimizer> optimizer;  ///< null for the first thread
    Buffer parameters, statistics, gradient;
  };
  void add(const WorkerTerms& terms, const data::SourceOptions& options, int threads);

  std::vector<std::unique_ptr<Owned>> owned_;
  std::vector<strategies::Worker> workers_;
};

/// What a model is made in. \param data that it is to be trained on; null: there is none
models::ModelContext model_context(kernels::Backend& backend, Reducer& reducer, bool steps_together,
                                   const Config& config, data::Dataset* data = nullptr);

/// How so many replicas share the micro-batches of a step: where all make it together, whole ones if there are enough.
data::MicroBatchSharing micro_batch_sharing(const Config& config, int workers);

/// What the sources of a run on these ranks are asked for.
data::SourceOptions source_options(const ModelParts& parts, const Config& config);

/// The update rule that the run makes steps with. \throws ConfigError where it is none for a model that is updated in
/// place
optim::OptimizerSettings optimizer_settings(const Config& config, const strategies::Strategy& strategy,
                                            const models::Model& model);

/// \throws ConfigError where the config divides steps into micro-batches, but the model is updated in place
void require_divisible_steps(const Config& config, const strategies::Strategy& strategy, const models::Model& model);

/// Fills in what a config leaves to the data, and checks what depends on them. \return the config
/// \throws ConfigError
Config& settle(Config& config, const data::DatasetInfo& data);

}  // namespace unisono::experiment
