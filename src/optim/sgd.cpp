// Stochastic gradient descent, with momentum or Nesterov's.
//     d = g + λθ                                      λ: weight decay
//     plain       θ ← θ − rate · d                    Robbins, Monro 1951
//     momentum    v ← μ v + d,  θ ← θ − rate · v      Polyak 1964
//     nesterov    v ← μ v + d,  θ ← θ − rate · (d + μ v)
//                                                     Nesterov 1983; in this form Sutskever et al., ICML 2013
// Memory traffic per float of θ: plain reads 8 bytes and writes 4; with velocity 12 and 8. State: velocity, where μ >
// 0.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

struct SgdSettings {
  double momentum = 0;  ///< μ; 0: plain SGD
  bool nesterov = false;
};

std::vector<std::string> sgd_state_names(const OptimizerSettings& settings) {
  if (settings.own.of<SgdSettings>().momentum > 0) return {"velocity"};
  return {};
}

class Sgd final : public UpdateRule {
 public:
  Sgd(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels)
      : UpdateRule(settings, layout, kernels, sgd_state_names(settings)), sgd_(settings.own.of<SgdSettings>()) {}

 private:
  void update(const RuleStep& step) override {
    backend().sgd_update(scalars(step), step.scale, step.ranges, step.g, step.theta, state_vector(0, step));
  }
  std::unique_ptr<kernels::StepAtOnce> update_at_once(const RuleStep& step, kernels::StepKernels& kernels) override {
    return kernels.sgd_at_once(scalars(step), step.scale.factor, step.ranges, step.theta, state_vector(0, step));
  }
  kernels::SgdStep scalars(const RuleStep& step) const {
    return {.rate = step.rate,
            .momentum = static_cast<float>(sgd_.momentum),
            .decay = step.decay,
            .nesterov = sgd_.nesterov};
  }

  SgdSettings sgd_;
};

void describe_sgd(OptimizerSettings& settings, ConfigVisitor& visitor) {
  auto& sgd = settings.own.of<SgdSettings>();
  describe_momentum(visitor, sgd.momentum);
  visitor.field({.name = "nesterov", .meaning = "use Nesterov momentum"}, sgd.nesterov);
  visitor.require("nesterov", !sgd.nesterov || sgd.momentum > 0,
                  "nesterov = true needs momentum above 0: set momentum (0.9 is common), or remove nesterov");
}

}  // namespace

OptimizerKind sgd() {
  return {.name = "sgd",
          .meaning = "stochastic gradient descent, plain or with momentum",
          .describe = describe_sgd,
          .state = sgd_state_names,
          .make = make_rule<Sgd>,
          .traits = {.is_gradient_descent = true}};
}

}  // namespace unisono::optim
