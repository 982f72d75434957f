// RMSProp: the gradient divided by a running root of its mean square.
//     d = g + λθ
//     s ← α s + (1 − α) d²
//     θ ← θ − rate · d / (√s + ε)
// Tieleman, Hinton, "Neural networks for machine learning", lecture 6.5, 2012.
// Memory traffic per float of θ: 12 bytes read, 8 written. State: mean_square.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

struct RmspropSettings {
  double smoothing = 0.99;  ///< α, of the mean square
  double epsilon = 1e-8;
};

std::vector<std::string> rmsprop_state_names(const OptimizerSettings&) { return {"mean_square"}; }

class Rmsprop final : public UpdateRule {
 public:
  Rmsprop(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels)
      : UpdateRule(settings, layout, kernels, rmsprop_state_names(settings)),
        rmsprop_(settings.own.of<RmspropSettings>()) {}

 private:
  void update(const RuleStep& step) override {
    backend().rmsprop_update({.rate = step.rate,
                              .decay = step.decay,
                              .smoothing = static_cast<float>(rmsprop_.smoothing),
                              .epsilon = static_cast<float>(rmsprop_.epsilon)},
                             step.scale, step.ranges, step.g, step.theta, state_vector(0, step));
  }

  RmspropSettings rmsprop_;
};

void describe_rmsprop(OptimizerSettings& settings, ConfigVisitor& visitor) {
  auto& rmsprop = settings.own.of<RmspropSettings>();
  visitor.field({.name = "smoothing",
                 .meaning = "decay rate of the moving average of squared gradients",
                 .minimum = 0,
                 .maximum = 0.999999},
                rmsprop.smoothing);
  describe_epsilon(visitor, rmsprop.epsilon);
}

std::unique_ptr<Optimizer> make_rmsprop(const OptimizerSettings& settings, const ParameterLayout& layout,
                                        kernels::UpdateKernels& kernels) {
  return std::make_unique<Rmsprop>(settings, layout, kernels);
}

}  // namespace

OptimizerKind rmsprop() {
  return {.name = "rmsprop",
          .meaning = "a learning rate for each parameter, from a moving average of squared gradients",
          .describe = describe_rmsprop,
          .state = rmsprop_state_names,
          .make = make_rmsprop};
}

}  // namespace unisono::optim
