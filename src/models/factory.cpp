#include "unisono/models/factory.hpp"

#include "network_model.hpp"
#include "unisono/base/errors.hpp"

namespace unisono {

void ModelSettings::describe(ConfigVisitor& visitor) {
  visitor.variant({.name = "kind", .meaning = "what is trained"}, kind,
                  {{"network", "layers in sequence, with residual blocks",
                    [this](ConfigVisitor& inner) { network.describe(inner); }}});
}

std::unique_ptr<Model> make_model(const ModelSettings& settings, const ModelInputs& inputs,
                                  const ModelContext& context) {
  if (settings.kind == "network") return std::make_unique<NetworkModel>(settings.network, inputs, context);
  throw ConfigError("model.kind: there is no model '" + settings.kind + "'");
}

}  // namespace unisono
