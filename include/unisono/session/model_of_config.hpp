#pragma once

#include <memory>

#include "unisono/session/model_parts.hpp"

namespace unisono::session {

/// The model that a config would train on these data, on one thread of the CPU and one rank: for questions about it
/// that a run does not ask.
class ModelOfConfig {
 public:
  /// \param config after `settle` \throws ConfigError for a model that does not fit the data
  ModelOfConfig(const settings::Config& config, const data::DatasetInfo& data)
      : strategy_(strategies::make_strategy(config.strategy)),
        backend_(kernels::make_cpu_backend(1)),
        model_(models::make_model(config.model, inputs_of(data),
                                  model_context(*backend_, reducer_, strategy_->steps_together(), config))) {}

  models::Model& model() { return *model_; }
  kernels::Backend& backend() { return *backend_; }
  const strategies::Strategy& strategy() const { return *strategy_; }

 private:
  std::unique_ptr<strategies::Strategy> strategy_;
  std::unique_ptr<kernels::Backend> backend_;
  LocalReducer reducer_;
  std::unique_ptr<models::Model> model_;
};

}  // namespace unisono::session
