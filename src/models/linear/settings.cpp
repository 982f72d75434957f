#include "unisono/models/linear_settings.hpp"

namespace unisono {

void LinearSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "loss", .meaning = "what predictions are compared by"}, loss,
                 {{"auto", "logistic for two classes, softmax for more, squared for targets"},
                  {"logistic", "ln(1 + e^−yz), two classes"},
                  {"hinge", "max(0, 1 − yz), two classes: a linear support vector machine"},
                  {"squared", "½ (z − t)², a target"},
                  {"softmax", "cross-entropy over all classes"}});
  visitor.field({.name = "l1", .meaning = "penalty l1 · Σ |w|, which makes weights exactly 0", .minimum = 0}, l1);
  visitor.field({.name = "l2", .meaning = "penalty l2/2 · Σ w²", .minimum = 0}, l2);
  visitor.field({.name = "bias", .meaning = "whether each output has a bias, which no penalty touches"}, bias);
  visitor.field({.name = "averaged",
                 .meaning = "predict with the mean of the weights after all updates (averaged SGD), where the strategy "
                            "updates in place"},
                averaged);
}

}  // namespace unisono
