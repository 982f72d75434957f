// LARS: momentum with a rate for each block of weights, so that a step is in proportion to the weights' own size.
//     ρ = η ‖θ‖ / (‖g‖ + λ‖θ‖)                 of the block; 1 for biases and norms, and where ‖θ‖ or ‖g‖ is 0
//     v ← μ v + rate · ρ · (g + λθ)
//     θ ← θ − v
// You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017.
// The rate is inside v, as in the paper: a change of the rate does not change the momentum already gathered.
// Memory traffic per float of θ: as SGD with momentum, and 8 bytes read for the norms. State: velocity, where μ > 0.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

struct LarsSettings {
  double momentum = 0.9;
  double trust = 0.001;  ///< η, the trust coefficient
};

std::vector<std::string> lars_state_names(const OptimizerSettings& settings) {
  if (settings.own.of<LarsSettings>().momentum > 0) return {"velocity"};
  return {};
}

class Lars final : public UpdateRule {
 public:
  Lars(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels)
      : UpdateRule(settings, layout, kernels, lars_state_names(settings), /*adapt_weights=*/true),
        lars_(settings.own.of<LarsSettings>()),
        theta_norms_(ranges().size(), kernels),
        g_norms_(ranges().size(), kernels) {}

 private:
  void update(const RuleStep& step) override {
    sum_norms(step);
    backend().lars_update(
        {.rate = step.rate, .momentum = static_cast<float>(lars_.momentum), .decay = step.decay, .trust = lars_.trust},
        step.scale, ranges(), {.theta = theta_norms_.view(), .other = g_norms_.view()}, step.g, step.theta,
        state_vector(0, step));
  }

  void sum_norms(const RuleStep& step) {
    if (divided() != nullptr) {
      return divided()->of_blocks(
          ranges(), {{squares_of(step.theta), theta_norms_.view()}, {squares_of(step.g), g_norms_.view()}});
    }
    backend().squared_norms(step.theta, ranges(), theta_norms_.view());
    backend().squared_norms(step.g, ranges(), g_norms_.view());
  }

  LarsSettings lars_;
  RangeSums theta_norms_, g_norms_;  ///< squared
};

void describe_lars(OptimizerSettings& settings, ConfigVisitor& visitor) {
  auto& lars = settings.own.of<LarsSettings>();
  describe_momentum(visitor, lars.momentum);
  visitor.field({.name = "trust",
                 .meaning = "trust coefficient: norm of a step, relative to the norm of the weights that it changes",
                 .minimum = 0,
                 .minimum_excluded = true},
                lars.trust);
}

std::unique_ptr<Optimizer> make_lars(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) {
  return std::make_unique<Lars>(settings, layout, kernels);
}

}  // namespace

OptimizerKind lars() {
  return {.name = "lars",
          .meaning = "SGD with momentum and a learning rate for each block of weights; for large batches",
          .describe = describe_lars,
          .state = lars_state_names,
          .make = make_lars,
          .traits = {.has_block_rates = true}};
}

}  // namespace unisono::optim
