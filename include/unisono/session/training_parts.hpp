#pragma once

#include <memory>
#include <span>
#include <vector>

#include "unisono/session/model_parts.hpp"
#include "unisono/session/weight_average.hpp"

namespace unisono::session {

/// What training needs in addition to ModelParts.
struct TrainingParts {
  TrainingParts(ModelParts& parts, const settings::Config& config);

  bool has_gradient = true;                     ///< whether the model computes gradients; false: it is updated in place
  Buffer gradient;                              ///< g, in the same memory as θ; empty where the model has no gradient
  std::unique_ptr<optim::Optimizer> optimizer;  ///< null where `method` is not
  std::unique_ptr<optim::BatchMethod> method;   ///< a method for the whole training set, on this rank's shards
  std::vector<parallel::StrategyVector> vectors;  ///< the strategy's vectors
  std::unique_ptr<WeightAverage> average;         ///< null: weights are not averaged
  kernels::LossSums sums;
  Seconds seconds;
  CounterSet counters;
};

/// The steps of a training.
struct StepsOf {
  data::BatchSource& source;
  std::int64_t first_step = 0;  ///< steps that were made before
  const Runtime& runtime = machine_runtime();
  models::Model* another_model = nullptr;  ///< a model like that of the parts, to be trained in its place; null: none
};
/// What the steps of a training need. All arguments must outlive the result.
parallel::StepTerms step_terms(ModelParts& parts, TrainingParts& training, const settings::Config& config,
                               const StepsOf& steps);

/// The backends, models, sources and vectors of workers that compute independently on one rank (strategies::Worker).
class WorkerParts {
 public:
  /// Has no workers if the strategy's workers do not compute independently.
  WorkerParts(ModelParts& parts, TrainingParts& training, const settings::Config& config, data::Dataset& data);

  std::span<strategies::Worker> workers() { return workers_; }

 private:
  struct Owned {
    Owned(const settings::Config& config, data::Dataset& data, const data::SourceOptions& options, int threads);

    std::unique_ptr<kernels::Backend> backend;
    LocalReducer reducer;
    std::unique_ptr<models::Model> model;
    std::unique_ptr<data::BatchSource> source;
    std::unique_ptr<optim::Optimizer> optimizer;  ///< null for the first thread, which uses the rank's optimizer
    Buffer parameters, statistics, gradient;
  };
  void add(ModelParts& parts, TrainingParts& training, const settings::Config& config, std::unique_ptr<Owned> made);

  std::vector<std::unique_ptr<Owned>> owned_;
  std::vector<strategies::Worker> workers_;
};

}  // namespace unisono::session
