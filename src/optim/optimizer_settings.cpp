#include "unisono/optim/optimizer.hpp"

namespace unisono::optim {
namespace {

void describe_momentum(ConfigVisitor& visitor, double& momentum) {
  visitor.field({.name = "momentum",
                 .meaning = "momentum: share of the velocity that is kept from one step to the next",
                 .minimum = 0,
                 .maximum = 1,
                 .maximum_excluded = true},
                momentum);
}

void describe_epsilon(ConfigVisitor& visitor, double& epsilon) {
  visitor.field(
      {.name = "epsilon", .meaning = "small number that is added to the denominator of the step", .minimum = 1e-30},
      epsilon);
}

void describe_sgd(ConfigVisitor& visitor, SgdSettings& sgd) {
  describe_momentum(visitor, sgd.momentum);
  visitor.field({.name = "nesterov", .meaning = "use Nesterov momentum"}, sgd.nesterov);
  visitor.require("nesterov", !sgd.nesterov || sgd.momentum > 0,
                  "nesterov = true needs momentum above 0: set momentum (0.9 is common), or remove nesterov");
}

void describe_rmsprop(ConfigVisitor& visitor, RmspropSettings& rmsprop) {
  visitor.field({.name = "smoothing",
                 .meaning = "decay rate of the moving average of squared gradients",
                 .minimum = 0,
                 .maximum = 0.999999},
                rmsprop.smoothing);
  describe_epsilon(visitor, rmsprop.epsilon);
}

void describe_adam(ConfigVisitor& visitor, AdamSettings& adam) {
  visitor.field(
      {.name = "beta1", .meaning = "decay rate of the moving average of gradients", .minimum = 0, .maximum = 0.999999},
      adam.beta1);
  visitor.field({.name = "beta2",
                 .meaning = "decay rate of the moving average of squared gradients",
                 .minimum = 0,
                 .maximum = 0.999999},
                adam.beta2);
  describe_epsilon(visitor, adam.epsilon);
}

void describe_lars(ConfigVisitor& visitor, LarsSettings& lars) {
  describe_momentum(visitor, lars.momentum);
  visitor.field({.name = "trust",
                 .meaning = "trust coefficient: norm of a step, relative to the norm of the weights that it changes",
                 .minimum = 0,
                 .minimum_excluded = true},
                lars.trust);
}

}  // namespace

void OptimizerSettings::describe(ConfigVisitor& visitor) {
  visitor.variant({.name = "kind", .meaning = "update rule"}, kind,
                  {{"sgd", "stochastic gradient descent, plain or with momentum",
                    [this](ConfigVisitor& v) { describe_sgd(v, sgd); }},
                   {"adagrad", "a learning rate for each parameter, from the sum of all squared gradients so far",
                    [this](ConfigVisitor& v) { describe_epsilon(v, adagrad.epsilon); }},
                   {"rmsprop", "a learning rate for each parameter, from a moving average of squared gradients",
                    [this](ConfigVisitor& v) { describe_rmsprop(v, rmsprop); }},
                   {"adam", "moving averages of gradients and squared gradients",
                    [this](ConfigVisitor& v) { describe_adam(v, adam); }},
                   {"adamw", "Adam with decoupled weight decay", [this](ConfigVisitor& v) { describe_adam(v, adam); }},
                   {"lars", "SGD with momentum and a learning rate for each block of weights; for large batches",
                    [this](ConfigVisitor& v) { describe_lars(v, lars); }},
                   {"lamb", "AdamW with a learning rate for each block of weights; for large batches",
                    [this](ConfigVisitor& v) { describe_adam(v, lamb); }}});
  visitor.field({.name = "learning_rate",
                 .meaning = "base learning rate, which the schedule multiplies by a factor",
                 .minimum = 0,
                 .required = true},
                learning_rate);
  visitor.field({.name = "weight_decay",
                 .meaning = "weight decay λ, which adds λθ to the gradient (decoupled in AdamW and LAMB)",
                 .minimum = 0},
                weight_decay);
  visitor.field(
      {.name = "decay_biases_and_norms", .meaning = "apply weight_decay to biases and normalisation parameters, too"},
      decay_biases_and_norms);
  visitor.field(
      {.name = "clip_norm",
       .meaning = "gradient clipping: a gradient with a larger norm is scaled down to this norm; 0: no clipping",
       .minimum = 0},
      clip_norm);
}

}  // namespace unisono::optim
