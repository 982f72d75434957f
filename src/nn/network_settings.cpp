#include "unisono/nn/network_settings.hpp"

#include "layers/catalog.hpp"

namespace unisono::nn {

void LayerSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const LayerKind& layer : layer_kinds()) {
    if (inside_residual && layer.name == "residual") continue;
    variants.push_back(
        {layer.name, layer.meaning, [this, &layer](ConfigVisitor& inner) { layer.describe(*this, inner); }});
  }
  visitor.variant({.name = "kind", .meaning = "type of the layer", .required = true}, kind, variants);
  visitor.field(
      {.name = "name", .meaning = "name of the layer's parameters; if left out, kind and number: \"convolution1\""},
      name);
}

void NetworkSettings::describe(ConfigVisitor& visitor) {
  visitor.choice(
      {.name = "loss", .meaning = "loss function that is minimised"}, loss,
      {{"softmax_cross_entropy", "−log of the predicted probability of the label, for mutually exclusive classes"},
       {"sigmoid_cross_entropy",
        "binary cross-entropy, averaged over independent outputs, for targets in [0, 1] or labels; for two "
        "classes, one output is enough: the probability of the second class"},
       {"multiclass_hinge",
        "max(0, 1 + the largest output of another class − the output of the label) (Crammer & Singer 2001)"},
       {"mean_squared_error", "(y − t)², averaged over the outputs of an example"},
       {"mean_absolute_error", "|y − t|, averaged over the outputs of an example"},
       {"huber", "½ (y − t)² up to |y − t| = delta and linear beyond, averaged over the outputs of an example"}});
  visitor.field({.name = "delta",
                 .meaning = "for huber: absolute error above which the loss is linear",
                 .minimum = 0,
                 .minimum_excluded = true},
                delta);
  visitor.require("delta", delta == 1 || loss == "huber",
                  "delta belongs to loss = \"huber\"; remove it, or use that loss");
  visitor.field({.name = "label_smoothing",
                 .meaning = "label smoothing: share of the target probability that is spread evenly over all classes "
                            "(Szegedy et al. 2016)",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                label_smoothing);
  visitor.list({.name = "layers", .meaning = "the layers, from the inputs to the outputs", .required = true}, layers);
}

}  // namespace unisono::nn
