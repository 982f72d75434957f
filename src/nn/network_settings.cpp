#include "unisono/nn/network_settings.hpp"

#include "layers/catalog.hpp"

namespace unisono {

void LayerSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const LayerKind& layer : layer_kinds()) {
    if (inside_residual && layer.name == "residual") continue;
    variants.push_back(
        {layer.name, layer.meaning, [this, &layer](ConfigVisitor& inner) { layer.describe(*this, inner); }});
  }
  visitor.variant({.name = "kind", .meaning = "what the layer does", .required = true}, kind, variants);
  visitor.field({.name = "name", .meaning = "names its parameters; kind and number if left out: \"convolution1\""},
                name);
}

void NetworkSettings::describe(ConfigVisitor& visitor) {
  visitor.choice(
      {.name = "loss", .meaning = "what is made small"}, loss,
      {{"softmax_cross_entropy", "−log of the probability of the label; classes exclude each other"},
       {"sigmoid_cross_entropy",
        "mean over independent yes-or-no outputs, for targets in [0, 1] or labels; of two classes one output "
        "will do: the second class' probability"},
       {"multiclass_hinge",
        "max(0, 1 + the largest of the other classes' outputs − the label's) (Crammer & Singer 2001)"},
       {"mean_squared_error", "mean over an example's outputs of (y − t)²"},
       {"mean_absolute_error", "mean over an example's outputs of |y − t|"},
       {"huber", "mean over an example's outputs of ½ (y − t)² up to |y − t| = delta, and linear beyond"}});
  visitor.field({.name = "delta",
                 .meaning = "huber: the error from which on the loss is linear",
                 .minimum = 0,
                 .minimum_excluded = true},
                delta);
  visitor.require("delta", delta == 1 || loss == "huber",
                  "delta belongs to loss = \"huber\"; remove it, or take that loss");
  visitor.field({.name = "label_smoothing",
                 .meaning = "share of a cross entropy's target that is spread evenly (Szegedy et al. 2016)",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                label_smoothing);
  visitor.list({.name = "layers", .meaning = "from the inputs to the outputs", .required = true}, layers);
}

}  // namespace unisono
