#include "unisono/optim/optimizer.hpp"

namespace unisono {
namespace {

void describe_momentum(ConfigVisitor& visitor, double& momentum) {
  visitor.field({.name = "momentum",
                 .meaning = "share of the last step's velocity that is kept",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                momentum);
}

void describe_epsilon(ConfigVisitor& visitor, double& epsilon) {
  visitor.field({.name = "epsilon", .meaning = "added to the root that the step is divided by", .minimum = 1e-30},
                epsilon);
}

void describe_sgd(ConfigVisitor& visitor, SgdSettings& sgd) {
  describe_momentum(visitor, sgd.momentum);
  visitor.field({.name = "nesterov", .meaning = "look ahead by one step of momentum"}, sgd.nesterov);
  visitor.require(
      "nesterov", !sgd.nesterov || sgd.momentum > 0,
      "nesterov looks ahead by the momentum, which is 0; set momentum (0.9 is common) or leave nesterov out");
}

void describe_rmsprop(ConfigVisitor& visitor, RmspropSettings& rmsprop) {
  visitor.field({.name = "smoothing",
                 .meaning = "share of the old mean square that a step keeps",
                 .minimum = 0,
                 .maximum = 0.999999},
                rmsprop.smoothing);
  describe_epsilon(visitor, rmsprop.epsilon);
}

void describe_adam(ConfigVisitor& visitor, AdamSettings& adam) {
  visitor.field({.name = "beta1",
                 .meaning = "share of the gradient's old mean that a step keeps",
                 .minimum = 0,
                 .maximum = 0.999999},
                adam.beta1);
  visitor.field({.name = "beta2",
                 .meaning = "share of the gradient's old mean square that a step keeps",
                 .minimum = 0,
                 .maximum = 0.999999},
                adam.beta2);
  describe_epsilon(visitor, adam.epsilon);
}

void describe_lars(ConfigVisitor& visitor, LarsSettings& lars) {
  describe_momentum(visitor, lars.momentum);
  visitor.field({.name = "trust",
                 .meaning = "size of a step relative to the weights it changes",
                 .minimum = 0,
                 .minimum_excluded = true},
                lars.trust);
}

}  // namespace

void OptimizerSettings::describe(ConfigVisitor& visitor) {
  visitor.variant(
      {.name = "kind", .meaning = "update rule"}, kind,
      {{"sgd", "gradient descent, plain or with momentum", [this](ConfigVisitor& v) { describe_sgd(v, sgd); }},
       {"adagrad", "a rate for each parameter, from all squared gradients so far",
        [this](ConfigVisitor& v) { describe_epsilon(v, adagrad.epsilon); }},
       {"rmsprop", "a rate for each parameter, from a running mean of squared gradients",
        [this](ConfigVisitor& v) { describe_rmsprop(v, rmsprop); }},
       {"adam", "running means of gradient and squared gradient", [this](ConfigVisitor& v) { describe_adam(v, adam); }},
       {"adamw", "Adam, with weight decay apart from the gradient",
        [this](ConfigVisitor& v) { describe_adam(v, adam); }},
       {"lars", "momentum, with a rate for each block of weights; for large batches",
        [this](ConfigVisitor& v) { describe_lars(v, lars); }},
       {"lamb", "AdamW, with a rate for each block of weights; for large batches",
        [this](ConfigVisitor& v) { describe_adam(v, lamb); }}});
  visitor.field(
      {.name = "learning_rate", .meaning = "base rate, which the schedule multiplies", .minimum = 0, .required = true},
      learning_rate);
  visitor.field({.name = "weight_decay", .meaning = "pull towards zero: λ of λθ", .minimum = 0}, weight_decay);
  visitor.field({.name = "decay_biases_and_norms", .meaning = "apply weight_decay to biases and norms too"},
                decay_biases_and_norms);
  visitor.field({.name = "clip_norm",
                 .meaning = "largest norm of the gradient of a step; a larger one is scaled down to it; 0: no clipping",
                 .minimum = 0},
                clip_norm);
}

}  // namespace unisono
