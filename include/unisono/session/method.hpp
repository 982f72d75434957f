#pragma once

#include <cstdint>
#include <memory>

#include "unisono/models/objective.hpp"
#include "unisono/session/model_parts.hpp"

// Methods for the whole training set (optimizer.kind = "lbfgs", …): what they need, and what they are made of.
namespace unisono::session {

/// Checks that the config's method can train this model on this set; nothing for other optimizers.
/// \throws ConfigError naming what of the model, the loss or the data it cannot use
void require_method(const settings::Config& config, models::Model& model, const data::DatasetInfo& data);

/// The config's method for the whole training set, with this rank's shards of its vectors; null for other optimizers.
std::unique_ptr<optim::BatchMethod> make_method(const ModelParts& parts, const settings::Config& config);

/// What the config's method for the whole training set minimises; null for other optimizers, and for alternating least
/// squares. \throws ConfigError
std::unique_ptr<models::Objective> make_objective(ModelParts& parts, const settings::Config& config,
                                                  data::Dataset& data);

/// Bytes of the vectors and matrices of the config's method for the whole training set on a rank; 0 for other
/// optimizers. \param model the model, with all of θ
std::int64_t method_bytes(const settings::Config& config, models::Model& model, int rank, int ranks);

/// The most examples of a pass of the model, for whole-batch methods. A set without examples counts as a large one.
Index examples_of_pass(const strategies::Strategy& strategy, models::Model& model, const data::DatasetInfo& data);

/// The model that a config would train on these data, on one thread of the CPU and one rank: for questions about the
/// model that a run does not ask.
class ModelOfConfig {
 public:
  /// \param config after `settle` \throws ConfigError for a model that does not fit the data
  ModelOfConfig(const settings::Config& config, const data::DatasetInfo& data)
      : strategy_(strategies::make_strategy(config.strategy)),
        backend_(kernels::make_cpu_backend(1)),
        model_(config, inputs_of(data), model_context(*backend_, reducer_, strategy_->steps_together(), config)) {}

  models::Model& model() { return model_.whole(); }
  /// What a rank computes of it.
  models::Model& model_of_rank() { return model_.model(); }
  kernels::Backend& backend() { return *backend_; }
  const strategies::Strategy& strategy() const { return *strategy_; }

 private:
  std::unique_ptr<strategies::Strategy> strategy_;
  std::unique_ptr<kernels::Backend> backend_;
  LocalReducer reducer_;
  ModelOfRank model_;
};

}  // namespace unisono::session
