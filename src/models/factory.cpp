#include "unisono/models/factory.hpp"

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
                                    [this](ConfigVisitor& inner) { network.describe(inner); }}};
  for (const auto& one : own) {
    variants.push_back({one->name(), one->meaning(), [&one](ConfigVisitor& inner) { one->describe(inner); }});
  }
  visitor.variant({.name = "kind", .meaning = "what is trained"}, kind, variants);
}

std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context) {
  if (settings.kind == "network") return std::make_unique<NetworkModel>(settings.network, inputs, context);
  for (const auto& one : settings.own) {
    if (one->name() == settings.kind) return one->make(inputs, context);
  }
  throw ConfigError("model.kind: there is no model '" + settings.kind + "'");
}

}  // namespace unisono
