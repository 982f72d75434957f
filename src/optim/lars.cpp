// LARS: momentum with a rate for each block of weights, so that a step is in proportion to the weights' own size.
//     ρ = η ‖θ‖ / (‖g‖ + λ‖θ‖)                 of the block; 1 for biases and norms, and where ‖θ‖ or ‖g‖ is 0
//     v ← μ v + rate · ρ · (g + λθ)
//     θ ← θ − v
// You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017.
// The rate is inside v, as in the paper: a change of the rate does not change the momentum already gathered.
// Memory a float of θ: as SGD with momentum, and 8 bytes read for the norms. State: velocity, where μ > 0.
#include <cmath>

#include "update_rule.hpp"

namespace unisono {
namespace {

std::vector<std::string> state_names(const LarsSettings& lars) {
  return lars.momentum > 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{};
}

class Lars final : public UpdateRule {
 public:
  Lars(const OptimizerSettings& settings, const ParameterLayout& layout, Backend& backend)
      : UpdateRule(settings, layout, backend, state_names(settings.lars), /*adapt_weights=*/true),
        lars_(settings.lars) {}

 private:
  void update(const RangeStep& step) override {
    const float rate = step.range.adapted ? static_cast<float>(step.rate * trust_ratio(step)) : step.rate;
    // SGD's rule at rate 1 on a gradient and a decay that were multiplied by the rate.
    backend().sgd_update({.rate = 1,
                          .momentum = static_cast<float>(lars_.momentum),
                          .decay = rate * step.decay,
                          .nesterov = false,
                          .gradient_scale = rate * step.gradient_scale},
                         step.g, step.theta, state_part(0, step.range));
  }

  double trust_ratio(const RangeStep& step) {
    const double theta = std::sqrt(backend().squared_norm(step.theta));
    const double g = static_cast<double>(step.gradient_scale) * std::sqrt(backend().squared_norm(step.g));
    if (theta == 0 || g == 0) return 1;
    return lars_.trust * theta / (g + static_cast<double>(step.decay) * theta);
  }

  LarsSettings lars_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lars(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     Backend& backend) {
  return std::make_unique<Lars>(settings, layout, backend);
}

}  // namespace unisono
