#include "unisono/models/factory.hpp"

#include <fmt/format.h>

#include "linear/linear_model.hpp"
#include "network_model.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {

std::vector<std::shared_ptr<ModelKind>> make_kinds(const ModelKinds& kinds) {
  std::vector<std::shared_ptr<ModelKind>> made;
  for (const auto& make : kinds) made.push_back(make());
  return made;
}

void ModelSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants = {{"network", "layers in sequence, with residual blocks",
                                    [this](ConfigVisitor& inner) { network.describe(inner); }},
                                   {"linear", "a linear model of sparse rows or tables",
                                    [this](ConfigVisitor& inner) { linear.describe(inner); }}};
  for (const auto& one : own) {
    variants.push_back({one->name(), one->meaning(), [&one](ConfigVisitor& inner) { one->describe(inner); }});
  }
  visitor.variant({.name = "kind", .meaning = "what is trained"}, kind, variants);
}

std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context) {
  if (settings.kind == "linear") return std::make_unique<LinearModel>(settings.linear, inputs, context);
  if (settings.kind == "network") {
    if (inputs.kind != SetKind::table) {
      throw ConfigError(fmt::format("model.kind = \"network\" takes a table of features, but the set holds {}",
                                    name_of(inputs.kind)));
    }
    return std::make_unique<NetworkModel>(settings.network, inputs, context);
  }
  for (const auto& one : settings.own) {
    if (one->name() == settings.kind) return one->make(inputs, context);
  }
  throw ConfigError("model.kind: there is no model '" + settings.kind + "'");
}

}  // namespace unisono
