// LAMB: AdamW's direction with a rate for each block of weights, so that a step is in proportion to the weights' size.
//     m, s as in Adam
//     u = m̂ / (√ŝ + ε) + λθ
//     ρ = ‖θ‖ / ‖u‖                            of the block; 1 for biases and norms, and where ‖θ‖ or ‖u‖ is 0
//     θ ← θ − rate · ρ · u
// You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2 with
// φ(z) = z.
// Memory a float of θ: 32 bytes read, 12 written, because ‖u‖ must be known before θ moves. State: first_moment,
// second_moment.
#include <cmath>

#include "adam_step.hpp"

namespace unisono {
namespace {

class Lamb final : public UpdateRule {
 public:
  Lamb(const OptimizerSettings& settings, const ParameterLayout& layout, Backend& backend)
      : UpdateRule(settings, layout, backend, {"first_moment", "second_moment"}, /*adapt_weights=*/true),
        lamb_(settings.lamb) {}

 private:
  void update(const RangeStep& step) override {
    const AdamStep adam = adam_step(lamb_, step, steps(), /*decoupled=*/true);
    const MutableView first = state_part(0, step.range), second = state_part(1, step.range);
    if (!step.range.adapted) {
      backend().adam_update(adam, step.g, step.theta, first, second);
      return;
    }
    const double theta = std::sqrt(backend().squared_norm(step.theta));
    const double direction = std::sqrt(backend().lamb_moments(adam, step.g, step.theta, first, second));
    const double ratio = theta == 0 || direction == 0 ? 1 : theta / direction;
    backend().lamb_apply(adam, static_cast<float>(ratio), step.theta, first, second);
  }

  AdamSettings lamb_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lamb(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     Backend& backend) {
  return std::make_unique<Lamb>(settings, layout, backend);
}

}  // namespace unisono
