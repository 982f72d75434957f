#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/models/model.hpp"
#include "unisono/nn/network_settings.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono {

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

/// A kind of model of one's own, beside the built-in ones: what `[model] kind` may say, the settings that it has, and
/// the model that these describe. See docs/own-model.md.
class ModelKind {
 public:
  virtual ~ModelKind() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view meaning() const = 0;
  virtual void describe(ConfigVisitor& visitor) = 0;
  /// \throws ConfigError where the data cannot serve it
  virtual std::unique_ptr<Model> make(const ModelInputs& inputs, const ModelContext& context) const = 0;
};

/// How each kind is made anew, with default settings, for a config to be read.
using ModelKinds = std::vector<std::function<std::shared_ptr<ModelKind>()>>;
std::vector<std::shared_ptr<ModelKind>> make_kinds(const ModelKinds& kinds);

/// `[model]`
struct ModelSettings {
  std::string kind = "network";
  NetworkSettings network;
  std::vector<std::shared_ptr<ModelKind>> own;
  void describe(ConfigVisitor& visitor);
};

/// \throws ConfigError naming the layer whose shapes do not fit, or the loss that the data cannot serve.
std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context);

}  // namespace unisono
