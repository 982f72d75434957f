#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/factorization_settings.hpp"
#include "unisono/models/linear_settings.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/word_settings.hpp"
#include "unisono/nn/network_settings.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono::models {

/// What the data say of a model's inputs and outputs.
struct ModelInputs {
  data::SetKind kind = data::SetKind::table;
  data::FeatureShape features = {};
  Index rows = 0, columns = 0;  ///< users and items; words
  double mean_value = 0;        ///< of the training ratings
  double row_values = 0;        ///< sparse rows: how many values a training row has on average
  Index classes = 0;            ///< 0: no labels
  Index target_size = 0;        ///< 0: no targets
};

/// What a model borrows.
struct ModelContext {
  kernels::Backend& backend;
  Reducer& reducer;                 ///< over the ranks that step together, for global batch statistics
  bool steps_together = true;       ///< whether the strategy keeps the ranks in step
  std::uint64_t seed = 0;           ///< of dropout masks, and of what word models draw
  std::string update_rule = "sgd";  ///< optimizer.kind, for models that update in place
  double learning_rate = 1;         ///< optimizer.learning_rate, likewise
  /// How many of so many training examples have each feature, or how often each word occurs; may be empty or give
  /// nothing where the model is not to be trained.
  std::function<std::span<const std::int64_t>()> occurrences = {};
  std::int64_t training_examples = 0;
  std::vector<std::string> freeze = {};  ///< of networks: patterns of names (ParameterLayout::freeze)
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
  nn::NetworkSettings network;
  LinearSettings linear;
  FactorizationSettings factorization;
  Word2vecSettings word2vec;
  GloveSettings glove;
  std::vector<std::shared_ptr<ModelKind>> own;
  void describe(ConfigVisitor& visitor);
};

/// Whether it is one of the built-in kinds whose models offer to be updated in place.
bool has_in_place_kind(const ModelSettings& settings);

/// \throws ConfigError naming the layer whose shapes do not fit, or the loss that the data cannot serve.
std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context);

}  // namespace unisono::models
