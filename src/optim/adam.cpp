// Adam and AdamW: steps of the gradient's running mean over the root of its running mean square.
//     d = g + λθ (Adam),  d = g (AdamW)
//     m ← β₁ m + (1 − β₁) d
//     s ← β₂ s + (1 − β₂) d²
//     θ ← θ − rate · m̂ / (√ŝ + ε)            (Adam)           m̂ = m / (1 − β₁ᵗ),  ŝ = s / (1 − β₂ᵗ)
//     θ ← θ − rate · (m̂ / (√ŝ + ε) + λθ)     (AdamW)
// Kingma, Ba, ICLR 2015; Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
// Memory a float of θ: 16 bytes read, 12 written. State: first_moment, second_moment.
#include "adam_step.hpp"

namespace unisono::optim {
namespace {

class Adam final : public UpdateRule {
 public:
  Adam(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::Backend& backend)
      : UpdateRule(settings, layout, backend, {"first_moment", "second_moment"}),
        adam_(settings.adam),
        decoupled_(settings.kind == "adamw") {}

 private:
  void update(const RuleStep& step) override {
    backend().adam_update(adam_step(adam_, step, steps(), decoupled_), step.scale, ranges(), step.g, step.theta,
                          state_vector(0), state_vector(1));
  }

  AdamSettings adam_;
  bool decoupled_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::Backend& backend) {
  return std::make_unique<Adam>(settings, layout, backend);
}

}  // namespace unisono::optim
