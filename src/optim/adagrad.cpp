// Adagrad: a rate for each parameter that shrinks with the squares it has seen.
//     d = g + λθ
//     a ← a + d²
//     θ ← θ − rate · d / (√a + ε)
// Duchi, Hazan, Singer, JMLR 12, 2011.
// Memory traffic per float of θ: 12 bytes read, 8 written. State: accumulator.
#include "update_rule.hpp"

namespace unisono::optim {
namespace {

struct AdagradSettings {
  double epsilon = 1e-10;
};

std::vector<std::string> adagrad_state_names(const OptimizerSettings&) { return {"accumulator"}; }

class Adagrad final : public UpdateRule {
 public:
  Adagrad(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels)
      : UpdateRule(settings, layout, kernels, adagrad_state_names(settings)),
        epsilon_(static_cast<float>(settings.own.of<AdagradSettings>().epsilon)) {}

 private:
  void update(const RuleStep& step) override {
    backend().adagrad_update({.rate = step.rate, .decay = step.decay, .epsilon = epsilon_}, step.scale, step.ranges,
                             step.g, step.theta, state_vector(0, step));
  }

  float epsilon_;
};

void describe_adagrad(OptimizerSettings& settings, ConfigVisitor& visitor) {
  describe_epsilon(visitor, settings.own.of<AdagradSettings>().epsilon);
}

std::unique_ptr<Optimizer> make_adagrad(const OptimizerSettings& settings, const ParameterLayout& layout,
                                        kernels::UpdateKernels& kernels) {
  return std::make_unique<Adagrad>(settings, layout, kernels);
}

}  // namespace

OptimizerKind adagrad() {
  return {.name = "adagrad",
          .meaning = "a learning rate for each parameter, from the sum of all squared gradients so far",
          .describe = describe_adagrad,
          .state = adagrad_state_names,
          .make = make_adagrad};
}

}  // namespace unisono::optim
