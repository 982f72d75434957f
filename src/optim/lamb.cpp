// LAMB: AdamW's direction with a rate for each block of weights, so that a step is in proportion to the weights' size.
//     m, s as in Adam
//     u = m̂ / (√ŝ + ε) + λθ
//     ρ = ‖θ‖ / ‖u‖                            of the block; 1 for biases and norms, and where ‖θ‖ or ‖u‖ is 0
//     θ ← θ − rate · ρ · u
// You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2 with
// φ(z) = z.
// Memory traffic per float of θ: 32 bytes read, 12 written, because ‖u‖ must be known before θ moves. State:
// first_moment, second_moment.
#include <algorithm>
#include <iterator>

#include "update_rule.hpp"

namespace unisono::optim {
namespace {

struct LambSettings {
  AdamConstants constants{.epsilon = 1e-6};
};

std::vector<std::string> lamb_state_names(const OptimizerSettings&) { return {"first_moment", "second_moment"}; }

std::vector<kernels::UpdateRange> some_of(const std::vector<kernels::UpdateRange>& ranges, bool adapted) {
  std::vector<kernels::UpdateRange> some;
  std::ranges::copy_if(ranges, std::back_inserter(some),
                       [adapted](const kernels::UpdateRange& range) { return range.adapted == adapted; });
  return some;
}

class Lamb final : public UpdateRule {
 public:
  Lamb(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels)
      : UpdateRule(settings, layout, kernels, lamb_state_names(settings), /*adapt_weights=*/true),
        lamb_(settings.own.of<LambSettings>().constants),
        adapted_(some_of(ranges(), true)),
        others_(some_of(ranges(), false)),
        theta_norms_(adapted_.size(), kernels),
        directions_(adapted_.size(), kernels) {}

 private:
  void update(const RuleStep& step) override {
    const kernels::AdamStep adam = adam_step(lamb_, step, steps(), /*decoupled=*/true);
    const MutableView first = state_vector(0, step), second = state_vector(1, step);
    backend().adam_update(adam, step.scale, others_, step.g, step.theta, first, second);
    backend().lamb_moments(adam, step.scale, adapted_, step.g, step.theta, first, second, directions_.view());
    if (divided() == nullptr) {
      backend().squared_norms(step.theta, adapted_, theta_norms_.view());
    } else {
      sum_norms(adam, step);
    }
    backend().lamb_apply(adam, adapted_, {.theta = theta_norms_.view(), .other = directions_.view()}, step.theta, first,
                         second);
  }

  void sum_norms(const kernels::AdamStep& adam, const RuleStep& step) {
    const DividedSums::Add directions = [&](const kernels::UpdateRange& range, bool exactly, ExactSquares& sum) {
      backend().sum_lamb_directions(adam, {&range, 1}, step.theta, state_vector(0, step), state_vector(1, step),
                                    exactly, {&sum, 1});
    };
    divided()->of_blocks(adapted_, {{squares_of(step.theta), theta_norms_.view()}, {directions, directions_.view()}});
  }

  AdamConstants lamb_;
  std::vector<kernels::UpdateRange> adapted_, others_;
  RangeSums theta_norms_, directions_;  ///< squared
};

void describe_lamb(OptimizerSettings& settings, ConfigVisitor& visitor) {
  settings.own.of<LambSettings>().constants.describe(visitor);
}

std::unique_ptr<Optimizer> make_lamb(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) {
  return std::make_unique<Lamb>(settings, layout, kernels);
}

}  // namespace

OptimizerKind lamb() {
  return {.name = "lamb",
          .meaning = "AdamW with a learning rate for each block of weights; for large batches",
          .describe = describe_lamb,
          .state = lamb_state_names,
          .make = make_lamb,
          .traits = {.has_block_rates = true}};
}

}  // namespace unisono::optim
