// Adagrad: a rate for each parameter that shrinks with the squares it has seen.
//     d = g + λθ
//     a ← a + d²
//     θ ← θ − rate · d / (√a + ε)
// Duchi, Hazan, Singer, JMLR 12, 2011.
// Memory a float of θ: 12 bytes read, 8 written. State: accumulator.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

class Adagrad final : public UpdateRule {
 public:
  Adagrad(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::Backend& backend)
      : UpdateRule(settings, layout, backend, {"accumulator"}),
        epsilon_(static_cast<float>(settings.adagrad.epsilon)) {}

 private:
  void update(const RuleStep& step) override {
    backend().adagrad_update({.rate = step.rate, .decay = step.decay, .epsilon = epsilon_}, step.scale, ranges(),
                             step.g, step.theta, state_vector(0));
  }

  float epsilon_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings& settings, const ParameterLayout& layout,
                                        kernels::Backend& backend) {
  return std::make_unique<Adagrad>(settings, layout, backend);
}

}  // namespace unisono::optim
