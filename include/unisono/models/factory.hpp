#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/settings.hpp"
#include "unisono/nn/network_settings.hpp"
#include "unisono/tensor/reducer.hpp"

namespace unisono::models {

/// The facts about the data set that determine a model's inputs and outputs.
struct ModelInputs {
  data::SetKind kind = data::SetKind::table;
  data::FeatureShape features = {};
  Index rows = 0, columns = 0;  ///< ratings: users and items; text, co-occurrences: words
  double mean_value = 0;        ///< of the training ratings
  double row_values = 0;        ///< sparse rows: how many values a training row has on average
  Index classes = 0;            ///< 0: no labels
  Index target_size = 0;        ///< 0: no targets
};

/// What a model is made with; references must outlive it.
struct ModelContext {
  kernels::Backend& backend;
  Reducer& reducer;                 ///< sums batch statistics over the ranks that step together
  bool steps_together = true;       ///< whether the strategy keeps the ranks in step
  std::uint64_t seed = 0;           ///< of dropout masks and of the random draws of word models
  std::string update_rule = "sgd";  ///< optimizer.kind, for models that update in place
  double learning_rate = 1;         ///< optimizer.learning_rate, for the same models
  /// data::Dataset::occurrences: how many of `training_examples` have each feature, or how often each word occurs. May
  /// be empty, or return an empty span, where the model is not trained.
  std::function<std::span<const std::int64_t>()> occurrences = {};
  std::int64_t training_examples = 0;
  std::vector<std::string> freeze = {};  ///< networks: blocks that are not trained (ParameterLayout::freeze)
};

/// A kind of model that a user of the library adds to the built-in ones: a value of `[model] kind`, its settings, and
/// the model that these describe. See docs/own-model.md.
class ModelKind {
 public:
  virtual ~ModelKind() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view meaning() const = 0;
  /// Declares its settings, as keys of `[model]`.
  virtual void describe(ConfigVisitor& visitor) = 0;
  /// \throws ConfigError where the data do not suit the model
  virtual std::unique_ptr<Model> make(const ModelInputs& inputs, const ModelContext& context) const = 0;
};

/// One factory for each added kind, which returns it with default settings, before a config is read into them.
using ModelKinds = std::vector<std::function<std::shared_ptr<ModelKind>()>>;
/// Calls all factories.
std::vector<std::shared_ptr<ModelKind>> make_kinds(const ModelKinds& kinds);

/// `[model]`
struct ModelSettings {
  std::string kind = "network";
  nn::NetworkSettings network;
  LinearSettings linear;
  FactorizationSettings factorization;
  Word2vecSettings word2vec;
  GloveSettings glove;
  std::vector<std::shared_ptr<ModelKind>> own;  ///< the added kinds
  void describe(ConfigVisitor& visitor);
};

/// Whether `kind` is a built-in kind whose models can be updated in place (models/in_place.hpp).
bool has_in_place_kind(const ModelSettings& settings);

/// Makes the model of settings.kind. \throws ConfigError naming the layer whose shapes do not fit, or the loss that
/// does not suit the data
std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context);

}  // namespace unisono::models
