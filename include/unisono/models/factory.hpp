#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/nn/network.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::models {

enum class LinearLoss { automatic, logistic, hinge, squared_hinge, squared, softmax };

inline constexpr Named<LinearLoss> kLinearLosses[] = {
    {LinearLoss::automatic, "auto", "logistic for two classes, softmax for more, squared for numeric targets"},
    {LinearLoss::logistic, "logistic", "ln(1 + e^−yz), for two classes: logistic regression"},
    {LinearLoss::hinge, "hinge", "max(0, 1 − yz), for two classes: a linear support vector machine"},
    {LinearLoss::squared_hinge, "squared_hinge",
     "max(0, 1 − yz)², for two classes: a smooth linear support vector machine"},
    {LinearLoss::squared, "squared", "½ (z − t)², for a numeric target: least squares"},
    {LinearLoss::softmax, "softmax", "cross-entropy, for any number of classes"}};

/// `[model] kind = "linear"`
struct LinearSettings {
  LinearLoss loss = LinearLoss::automatic;
  double l1 = 0, l2 = 0;
  bool bias = true;
  bool averaged = false;
  std::int64_t mini_batch = 1;
  void describe(ConfigVisitor& visitor);
};

/// How often the L2 penalty of a user or item counts in the objective.
enum class PenaltyPer { rating, user_and_item };

inline constexpr Named<PenaltyPer> kPenaltiesPer[] = {
    {PenaltyPer::rating, "rating", "once for each rating of the user and of the item"},
    {PenaltyPer::user_and_item, "user_and_item",
     "once for each user and each item, so that those with few ratings stay closer to the mean than those with "
     "many; values from 3 to 10 fit most sets"}};

/// What the values of a set of ratings say about users' preferences.
enum class Feedback { explicit_, implicit };

inline constexpr Named<Feedback> kFeedbacks[] = {
    {Feedback::explicit_, "explicit", "ratings that users gave; what they did not rate is unknown"},
    {Feedback::implicit, "implicit",
     "how often a user watched, bought or clicked something: a value above 0 says that the user likes the item, the "
     "surer the larger it is, and all other items count as disliked, with little confidence (Hu, Koren & Volinsky, "
     "2008)"}};

/// `[model] kind = "factorization"`
struct FactorizationSettings {
  std::int64_t dimension = 32;  ///< K, factors of a user or item
  double user_l2 = 0.02, item_l2 = 0.02;
  PenaltyPer l2_per = PenaltyPer::rating;
  bool biases = true;
  Feedback feedback = Feedback::explicit_;
  double confidence = 40;      ///< α: an implicit value r has the weight 1 + α |r|, a pair that is not in the set 1
  double initial_range = 0.1;  ///< initial factors are uniform in ±initial_range/√K
  void describe(ConfigVisitor& visitor);
};

enum class WordArchitecture { skip_gram, cbow };

inline constexpr Named<WordArchitecture> kWordArchitectures[] = {
    {WordArchitecture::skip_gram, "skip_gram", "each word of the window predicts the word in its middle"},
    {WordArchitecture::cbow, "cbow", "the mean of the words of the window predicts the word in its middle"}};

enum class WordOutput { negative_sampling, hierarchical_softmax };

inline constexpr Named<WordOutput> kWordOutputs[] = {
    {WordOutput::negative_sampling, "negative_sampling", "the word against some words that are drawn at random"},
    {WordOutput::hierarchical_softmax, "hierarchical_softmax", "the path to the word in a Huffman tree"}};

/// `[model] kind = "word2vec"`
struct Word2vecSettings {
  WordArchitecture architecture = WordArchitecture::skip_gram;
  WordOutput output = WordOutput::negative_sampling;
  std::int64_t dimension = 100;
  std::int64_t window = 5;
  std::int64_t negatives = 5;
  std::int64_t negatives_shared_by = 4;  ///< context words that share their negatives; skip_gram, negative_sampling
  double subsample = 1e-3;
  void describe(ConfigVisitor& visitor);
};

/// `[model] kind = "glove"`
struct GloveSettings {
  std::int64_t dimension = 100;
  double x_max = 100, alpha = 0.75;
  void describe(ConfigVisitor& visitor);
};

/// The facts about the data set that determine a model's inputs and outputs.
struct ModelInputs {
  data::SetKind kind = data::SetKind::table;
  data::FeatureShape features = {};
  Index rows = 0, columns = 0;        ///< ratings: users and items; text, co-occurrences: words
  double mean_value = 0;              ///< ratings: mean of the training ratings
  double row_values = 0;              ///< sparse rows: how many values a training row has on average
  Index classes = 0;                  ///< classes of the labels; 0: no labels
  Index target_size = 0;              ///< values of a target; 0: no targets
  Index context = 0;                  ///< tokens: T, of which a window consists; `rows` are the different tokens
  data::TokenBytes token_bytes = {};  ///< tokens: bytes of the text of each one; null: unknown
  bool mixed = false;                 ///< whether the training examples are mixed with others
};

/// What a model is made with; references must outlive it.
struct ModelContext {
  kernels::Backend& backend;
  Reducer& reducer;                 ///< sums batch statistics over the ranks that step together
  bool steps_together = true;       ///< whether the strategy keeps the ranks in step
  std::uint64_t seed = 0;           ///< seed of dropout masks and of the random draws of word models
  std::string update_rule = "sgd";  ///< optimizer.kind, for models that update in place
  double learning_rate = 1;         ///< optimizer.learning_rate, for models that update in place
  /// data::Dataset::occurrences: how many of `training_examples` have each feature, or how often each word occurs. May
  /// be empty, or return an empty span, where the model is not trained.
  std::function<std::span<const std::int64_t>()> occurrences = {};
  std::int64_t training_examples = 0;
  std::vector<std::string> freeze = {};  ///< networks: blocks that are not trained (ParameterLayout::freeze)
  bool recomputes_blocks = false;        ///< networks: nn::NetworkOptions::recomputes_blocks
  nn::TensorPart part = {};              ///< networks: what the model has of each layer
  TensorGroup* tensor = nullptr;         ///< networks: the ranks that have the other parts; null: there are none
};

/// A kind of model that a user of the library adds to the built-in ones: a value of `[model] kind`, its settings, and
/// the model that the settings describe. See docs/own-model.md.
class ModelKind {
 public:
  virtual ~ModelKind() = default;
  virtual std::string_view name() const = 0;
  virtual std::string_view meaning() const = 0;
  /// Declares the kind's settings, as keys of `[model]`.
  virtual void describe(ConfigVisitor& visitor) = 0;
  /// Makes the model that the settings describe. \throws ConfigError where the data do not suit the model
  virtual std::unique_ptr<Model> make(const ModelInputs& inputs, const ModelContext& context) const = 0;
};

/// One factory for each added kind, which returns it with default settings, before a config is read into them.
using ModelKinds = std::vector<std::function<std::shared_ptr<ModelKind>()>>;
/// The added kinds, one from each factory.
std::vector<std::shared_ptr<ModelKind>> make_kinds(const ModelKinds& kinds);

/// `[model]`
struct ModelSettings {
  std::string kind = "network";
  nn::NetworkSettings network;
  LinearSettings linear;
  FactorizationSettings factorization;
  Word2vecSettings word2vec;
  GloveSettings glove;
  std::vector<std::shared_ptr<ModelKind>> own;  ///< the kinds added to the built-in ones
  void describe(ConfigVisitor& visitor);
};

/// Whether `kind` is a built-in kind whose models can be updated in place (models/in_place.hpp).
bool has_in_place_kind(const ModelSettings& settings);

/// Makes the model of settings.kind. \throws ConfigError naming the layer whose shapes do not fit, or the loss that
/// does not suit the data
std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context);

}  // namespace unisono::models
