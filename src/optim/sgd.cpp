// Stochastic gradient descent, with momentum or Nesterov's.
//     d = g + λθ                                      λ: weight decay
//     plain       θ ← θ − rate · d                    Robbins, Monro 1951
//     momentum    v ← μ v + d,  θ ← θ − rate · v      Polyak 1964
//     nesterov    v ← μ v + d,  θ ← θ − rate · (d + μ v)
//                                                     Nesterov 1983; in this form Sutskever et al., ICML 2013
// Memory a float of θ: plain reads 8 bytes and writes 4; with velocity 12 and 8. State: velocity, where μ > 0.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

std::vector<std::string> state_names(const SgdSettings& sgd) {
  return sgd.momentum > 0 ? std::vector<std::string>{"velocity"} : std::vector<std::string>{};
}

class Sgd final : public UpdateRule {
 public:
  Sgd(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::Backend& backend)
      : UpdateRule(settings, layout, backend, state_names(settings.sgd)), sgd_(settings.sgd) {}

 private:
  void update(const RuleStep& step) override {
    backend().sgd_update({.rate = step.rate,
                          .momentum = static_cast<float>(sgd_.momentum),
                          .decay = step.decay,
                          .nesterov = sgd_.nesterov},
                         step.scale, ranges(), step.g, step.theta, state_vector(0));
  }

  SgdSettings sgd_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const OptimizerSettings& settings, const ParameterLayout& layout,
                                    kernels::Backend& backend) {
  return std::make_unique<Sgd>(settings, layout, backend);
}

}  // namespace unisono::optim
