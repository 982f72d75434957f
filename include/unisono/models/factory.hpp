#pragma once

#include <memory>
#include <string>

#include "unisono/base/config.hpp"
#include "unisono/models/model.hpp"
#include "unisono/nn/network_settings.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono {

/// `[model]`
struct ModelSettings {
  std::string kind = "network";
  NetworkSettings network;
  void describe(ConfigVisitor& visitor);
};

/// What the data say of a model's inputs and outputs.
struct ModelInputs {
  FeatureShape features;
  Index classes = 0;      ///< 0: no labels
  Index target_size = 0;  ///< 0: no targets
};

/// What a model borrows.
struct ModelContext {
  Backend& backend;
  Reducer& reducer;            ///< over the ranks that step together, for global batch statistics
  bool steps_together = true;  ///< whether the strategy keeps the ranks in step
  std::uint64_t seed = 0;      ///< of dropout masks
};

/// \throws ConfigError naming the layer whose shapes do not fit, or the loss that the data cannot serve.
std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context);

}  // namespace unisono
