// RMSProp: the gradient divided by a running root of its mean square.
//     d = g + λθ
//     s ← α s + (1 − α) d²
//     θ ← θ − rate · d / (√s + ε)
// Tieleman, Hinton, "Neural networks for machine learning", lecture 6.5, 2012.
// Memory a float of θ: 12 bytes read, 8 written. State: mean_square.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

class Rmsprop final : public UpdateRule {
 public:
  Rmsprop(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::Backend& backend)
      : UpdateRule(settings, layout, backend, {"mean_square"}), rmsprop_(settings.rmsprop) {}

 private:
  void update(const RuleStep& step) override {
    backend().rmsprop_update({.rate = step.rate,
                              .decay = step.decay,
                              .smoothing = static_cast<float>(rmsprop_.smoothing),
                              .epsilon = static_cast<float>(rmsprop_.epsilon)},
                             step.scale, ranges(), step.g, step.theta, state_vector(0));
  }

  RmspropSettings rmsprop_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerSettings& settings, const ParameterLayout& layout,
                                        kernels::Backend& backend) {
  return std::make_unique<Rmsprop>(settings, layout, backend);
}

}  // namespace unisono::optim
