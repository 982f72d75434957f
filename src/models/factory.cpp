#include "unisono/models/factory.hpp"

#include <fmt/format.h>

#include "factorization/factorization_model.hpp"
#include "linear/linear_model.hpp"
#include "network_model.hpp"
#include "unisono/base/errors.hpp"
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

std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context) {
  if (settings.kind == "linear") return std::make_unique<LinearModel>(settings.linear, inputs, context);
  if (settings.kind == "factorization") {
    return std::make_unique<FactorizationModel>(settings.factorization, inputs, context);
  }
  if (settings.kind == "word2vec") return std::make_unique<Word2vecModel>(settings.word2vec, inputs, context);
  if (settings.kind == "glove") return std::make_unique<GloveModel>(settings.glove, inputs, context);
  if (settings.kind == "network") {
    if (inputs.kind != data::SetKind::table) {
      throw ConfigError(fmt::format("model.kind = \"network\" needs a table of features, but the data set holds {}",
                                    data::name_of(inputs.kind)));
    }
    return std::make_unique<NetworkModel>(settings.network, inputs, context);
  }
  for (const auto& one : settings.own) {
    if (one->name() == settings.kind) return one->make(inputs, context);
  }
  throw ConfigError("model.kind: there is no model '" + settings.kind + "'");
}

}  // namespace unisono::models
