#include "unisono/models/linear_settings.hpp"

#include "unisono/kernels/in_place.hpp"

namespace unisono::models {

void LinearSettings::describe(ConfigVisitor& visitor) {
  visitor.choice({.name = "loss", .meaning = "loss function that is minimised"}, loss, kLinearLosses);
  visitor.field(
      {.name = "l1", .meaning = "L1 regularisation l1 · Σ |w|, which makes some weights exactly 0", .minimum = 0}, l1);
  visitor.field({.name = "l2", .meaning = "L2 regularisation l2/2 · Σ w²", .minimum = 0}, l2);
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
                  "most 256 examples, and at most a 256th of the training set",
       .unit = "examples",
       .minimum = 1,
       .maximum = kernels::kMostMiniBatch},
      mini_batch);
}

}  // namespace unisono::models
