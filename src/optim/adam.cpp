// Adam and AdamW: steps of the gradient's running mean over the root of its running mean square.
//     d = g + λθ (Adam),  d = g (AdamW)
//     m ← β₁ m + (1 − β₁) d
//     s ← β₂ s + (1 − β₂) d²
//     θ ← θ − rate · m̂ / (√ŝ + ε)            (Adam)           m̂ = m / (1 − β₁ᵗ),  ŝ = s / (1 − β₂ᵗ)
//     θ ← θ − rate · (m̂ / (√ŝ + ε) + λθ)     (AdamW)
// Kingma, Ba, ICLR 2015; Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
// Memory traffic per float of θ: 16 bytes read, 12 written. State: first_moment, second_moment.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

/// adam and adamw have the same keys.
struct AdamSettings {
  AdamConstants constants{};
};

std::vector<std::string> adam_state_names(const OptimizerSettings&) { return {"first_moment", "second_moment"}; }

class Adam final : public UpdateRule {
 public:
  Adam(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels,
       bool decoupled)
      : UpdateRule(settings, layout, kernels, adam_state_names(settings)),
        adam_(settings.own.of<AdamSettings>().constants),
        decoupled_(decoupled) {}

 private:
  void update(const RuleStep& step) override {
    backend().adam_update(adam_step(adam_, step, steps(), decoupled_), step.scale, step.ranges, step.g, step.theta,
                          state_vector(0, step), state_vector(1, step));
  }

  AdamConstants adam_;
  bool decoupled_;
};

void describe_adam(OptimizerSettings& settings, ConfigVisitor& visitor) {
  settings.own.of<AdamSettings>().constants.describe(visitor);
}

template <bool kDecoupled>
std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) {
  return std::make_unique<Adam>(settings, layout, kernels, kDecoupled);
}

}  // namespace

void AdamConstants::describe(ConfigVisitor& visitor) {
  visitor.field(
      {.name = "beta1", .meaning = "decay rate of the moving average of gradients", .minimum = 0, .maximum = 0.999999},
      beta1);
  visitor.field({.name = "beta2",
                 .meaning = "decay rate of the moving average of squared gradients",
                 .minimum = 0,
                 .maximum = 0.999999},
                beta2);
  describe_epsilon(visitor, epsilon);
}

OptimizerKind adam() {
  return {.name = "adam",
          .meaning = "moving averages of gradients and squared gradients",
          .describe = describe_adam,
          .state = adam_state_names,
          .make = make_adam</*kDecoupled=*/false>};
}

OptimizerKind adamw() {
  return {.name = "adamw",
          .meaning = "Adam with decoupled weight decay",
          .describe = describe_adam,
          .state = adam_state_names,
          .make = make_adam</*kDecoupled=*/true>};
}

}  // namespace unisono::optim
