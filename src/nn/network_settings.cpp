#include "unisono/nn/network_settings.hpp"

#include "layers/catalog.hpp"

namespace unisono::nn {

void LayerSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const LayerKind& layer : layer_kinds()) {
    if (inside_residual && layer.form == LayerForm::residual) continue;
    variants.push_back({layer.name, layer.meaning, {}});
    if (layer.describe == nullptr) continue;
    variants.back().describe = [this, &layer](ConfigVisitor& inner) { layer.describe(*this, inner); };
  }
  visitor.variant({.name = "kind", .meaning = "type of the layer", .required = true}, kind, variants);
  visitor.field(
      {.name = "name", .meaning = "name of the layer's parameters; if left out, kind and number: \"convolution1\""},
      name);
}

void NetworkSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "loss", .meaning = "loss function that is minimised"}, loss, kLossKinds);
  visitor.field({.name = "delta",
                 .meaning = "for huber: absolute error above which the loss is linear",
                 .minimum = 0,
                 .minimum_excluded = true},
                delta);
  visitor.require("delta", delta == 1 || loss == LossKind::huber,
                  "delta belongs to loss = \"huber\"; remove it, or use that loss");
  visitor.field({.name = "label_smoothing",
                 .meaning = "label smoothing: share of the target probability that is spread evenly over all classes "
                            "(Szegedy et al. 2016)",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                label_smoothing);
  visitor.choice(
      {.name = "winograd",
       .meaning = "on CPUs: how convolutions with kernel = 3 and stride = 1 between multiples of 16 channels "
                  "are computed: tiles of Winograd's method"},
      winograd, kWinogradTiles);
  visitor.list({.name = "layers", .meaning = "the layers, from the inputs to the outputs", .required = true}, layers);
}

}  // namespace unisono::nn
