#include "unisono/models/factory.hpp"

#include <fmt/format.h>

#include "factorization/factorization_model.hpp"
#include "linear/linear_model.hpp"
#include "network_model.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/kernels/in_place.hpp"
#include "words/glove_model.hpp"
#include "words/word2vec_model.hpp"

namespace unisono::models {

std::vector<std::shared_ptr<ModelKind>> make_kinds(const ModelKinds& kinds) {
  std::vector<std::shared_ptr<ModelKind>> made;
  for (const auto& make : kinds) made.push_back(make());
  return made;
}

void ModelSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants = {
      {"network", "neural network: a sequence of layers, which may contain residual blocks",
       [this](ConfigVisitor& inner) { network.describe(inner); }},
      {"linear", "linear model on sparse features or tables", [this](ConfigVisitor& inner) { linear.describe(inner); }},
      {"factorization", "biased matrix factorization of ratings",
       [this](ConfigVisitor& inner) { factorization.describe(inner); }},
      {"word2vec", "word vectors from text", [this](ConfigVisitor& inner) { word2vec.describe(inner); }},
      {"glove", "word vectors from co-occurrences", [this](ConfigVisitor& inner) { glove.describe(inner); }}};
  for (const auto& one : own) {
    variants.push_back({one->name(), one->meaning(), [&one](ConfigVisitor& inner) { one->describe(inner); }});
  }
  visitor.variant({.name = "kind", .meaning = "type of model"}, kind, variants);
}

bool has_in_place_kind(const ModelSettings& settings) {
  const std::string& kind = settings.kind;
  return kind == "linear" || kind == "factorization" || kind == "word2vec" || kind == "glove";
}

namespace {

/// \throws ConfigError where a model cannot learn from examples that are mixed with others
void require_mixed_losses(const ModelSettings& settings) {
  if (settings.kind != "network") {
    throw ConfigError(
        fmt::format("[data.augmentation]: mixup and cutmix are for networks, but model.kind is \"{}\"; remove them",
                    settings.kind));
  }
  if (settings.network.loss != nn::LossKind::multiclass_hinge) return;
  throw ConfigError(
      "model.loss: multiclass_hinge knows no examples of two labels, which mixup and cutmix make; take "
      "softmax_cross_entropy, or remove these keys from [data.augmentation]");
}

}  // namespace

std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context) {
  if (inputs.mixed) require_mixed_losses(settings);
  if (settings.kind == "linear") return std::make_unique<LinearModel>(settings.linear, inputs, context);
  if (settings.kind == "factorization") {
    return std::make_unique<FactorizationModel>(settings.factorization, inputs, context);
  }
  if (settings.kind == "word2vec") return std::make_unique<Word2vecModel>(settings.word2vec, inputs, context);
  if (settings.kind == "glove") return std::make_unique<GloveModel>(settings.glove, inputs, context);
  if (settings.kind == "network") {
    if (inputs.kind != data::SetKind::table && inputs.kind != data::SetKind::tokens) {
      throw ConfigError(
          fmt::format("model.kind = \"network\" needs a table of features or tokens, but the data set holds {}",
                      data::name_of(inputs.kind)));
    }
    return std::make_unique<NetworkModel>(settings.network, inputs, context);
  }
  for (const auto& one : settings.own) {
    if (one->name() == settings.kind) return one->make(inputs, context);
  }
  throw ConfigError("model.kind: there is no model '" + settings.kind + "'");
}

void LinearSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "loss", .meaning = "loss function that is minimised"}, loss, kLinearLosses);
  visitor.field({.name = "l1",
                 .meaning = "L1 regularisation l1 · Σ |w|, which makes some weights exactly 0",
                 .range = at_least(0)},
                l1);
  visitor.field({.name = "l2", .meaning = "L2 regularisation l2/2 · Σ w²", .range = at_least(0)}, l2);
  visitor.field({.name = "bias", .meaning = "give each output a bias, which is not regularised"}, bias);
  visitor.field({.name = "averaged",
                 .meaning = "averaged SGD: predict with the mean of the weights over all updates; only with strategies "
                            "that update in place, and not with lock-free threads"},
                averaged);
  visitor.field(
      {.name = "mini_batch",
       .meaning = "strategies that update in place: examples whose gradients are computed with the same "
                  "weights before any of them is applied; each weight takes their sum, the bias their mean. "
                  "1: a step for each example. Several are faster where features are few. A mini-batch has at "
                  "most 256 rows of a sparse set, a 256th of one with fewer than 65,536, and 64 of a table",
       .unit = "examples",
       .range = at_least(1).at_most(kernels::kMostMiniBatch)},
      mini_batch);
}

void FactorizationSettings::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "dimension", .meaning = "number of factors of each user and item", .range = at_least(1).at_most(65536)},
      dimension);
  visitor.field(
      {.name = "user_l2", .meaning = "L2 regularisation of users: user_l2/2 · (‖p_u‖² + b_u²)", .range = at_least(0)},
      user_l2);
  visitor.field(
      {.name = "item_l2", .meaning = "L2 regularisation of items: item_l2/2 · (‖q_i‖² + c_i²)", .range = at_least(0)},
      item_l2);
  visitor.choice({.name = "l2_per", .meaning = "how often the regularisation is applied"}, l2_per, kPenaltiesPer);
  visitor.field({.name = "biases", .meaning = "give each user and each item a bias"}, biases);
  visitor.variant(
      {.name = "feedback", .meaning = "what the values of the set say; implicit: only optimizer.kind = \"als\""},
      feedback, kFeedbacks,
      {{Feedback::implicit, [this](ConfigVisitor& inner) {
          inner.field({.name = "confidence",
                       .meaning = "α: a value r has the weight 1 + α |r|, and what is not in the set 1",
                       .range = at_least(0)},
                      confidence);
        }}});
  visitor.require("biases", !biases || feedback == Feedback::explicit_,
                  "feedback = \"implicit\" has no biases; set biases = false");
  visitor.field({.name = "initial_range",
                 .meaning = "initial factors are random within ±initial_range/√dimension; biases start at 0",
                 .range = above(0)},
                initial_range);
}

namespace {

void describe_dimension(ConfigVisitor& visitor, std::int64_t& dimension) {
  visitor.field({.name = "dimension", .meaning = "length of a word vector", .range = at_least(1).at_most(65536)},
                dimension);
}

}  // namespace

void Word2vecSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "architecture", .meaning = "which words predict which"}, architecture, kWordArchitectures);
  visitor.choice({.name = "output", .meaning = "approximation of the softmax over all words"}, output, kWordOutputs);
  describe_dimension(visitor, dimension);
  visitor.field(
      {.name = "window",
       .meaning = "largest number of words on either side; the actual number is drawn at random from 1 to `window`",
       .unit = "words",
       .range = at_least(1).at_most(kernels::kMaximumWindow / 2)},
      window);
  visitor.field({.name = "negatives",
                 .meaning = "for negative_sampling: number of negative words, drawn with probability ~ count^0.75",
                 .range = at_least(1).at_most(kernels::kMaximumOutputs - 1)},
                negatives);
  visitor.field({.name = "negatives_shared_by",
                 .meaning = "for skip_gram with negative_sampling: number of words of a window that share the same "
                            "negatives; more is faster, 1 is as in word2vec.c",
                 .unit = "words",
                 .range = at_least(1).at_most(kernels::kMaximumWindow)},
                negatives_shared_by);
  visitor.field({.name = "subsample",
                 .meaning = "subsampling of frequent words: with threshold t, an occurrence of a word of frequency f "
                            "is kept with probability (√(f/t) + 1) · t/f; 0: keep all",
                 .range = at_least(0).at_most(1)},
                subsample);
}

void GloveSettings::describe(ConfigVisitor& visitor) {
  describe_dimension(visitor, dimension);
  visitor.field({.name = "x_max",
                 .meaning = "a co-occurrence count x has the weight min(1, (x / x_max)^alpha)",
                 .range = above(0)},
                x_max);
  visitor.field({.name = "alpha", .meaning = "exponent of the weight: see x_max", .range = at_least(0)}, alpha);
}

}  // namespace unisono::models
