#include <fmt/format.h>

#include "rule_settings.hpp"
#include "unisono/optim/catalog.hpp"

namespace unisono::optim {

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

namespace {

void describe_decay(ConfigVisitor& visitor, OptimizerSettings& settings) {
  visitor.field({.name = "weight_decay",
                 .meaning = "weight decay λ, which adds λθ to the gradient (decoupled in AdamW and LAMB)",
                 .minimum = 0},
                settings.weight_decay);
  visitor.field(
      {.name = "decay_biases_and_norms", .meaning = "apply weight_decay to biases and normalisation parameters, too"},
      settings.decay_biases_and_norms);
}

void refuse_step_sizes(ConfigVisitor& visitor, const std::string& kind) {
  visitor.refuse("learning_rate", fmt::format("means nothing to {}, which chooses its steps itself: remove it", kind));
  visitor.refuse("clip_norm", fmt::format("means nothing to {}, whose steps lower the loss: remove it", kind));
}

}  // namespace

void OptimizerSettings::describe(ConfigVisitor& visitor) {
  std::vector<Variant> variants;
  for (const OptimizerKind& one : optimizer_kinds()) {
    variants.push_back({one.name, one.meaning, {}});
    if (one.describe != nullptr) {
      variants.back().describe = [this, &one](ConfigVisitor& inner) { one.describe(*this, inner); };
    }
  }
  visitor.variant({.name = "kind", .meaning = "update rule, or method for the whole training set"}, kind, variants);
  const bool has_rate = !is_whole_batch(*this);
  if (has_rate) {
    visitor.field({.name = "learning_rate",
                   .meaning = "base learning rate, which the schedule multiplies by a factor",
                   .minimum = 0,
                   .required = true},
                  learning_rate);
  } else {
    refuse_step_sizes(visitor, kind);
  }
  describe_decay(visitor, *this);
  if (!has_rate) return;
  visitor.field(
      {.name = "clip_norm",
       .meaning = "gradient clipping: a gradient with a larger norm is scaled down to this norm; 0: no clipping",
       .minimum = 0},
      clip_norm);
}

}  // namespace unisono::optim
