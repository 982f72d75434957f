#include <algorithm>
#include <iterator>

#include "update_rule.hpp"

namespace unisono::optim {

// LARS: momentum with a rate for each block of weights, so that a step is in proportion to the weights' own size.
//     ρ = η ‖θ‖ / (‖g‖ + λ‖θ‖)                 of the block; 1 for biases and norms, and where ‖θ‖ or ‖g‖ is 0
//     v ← μ v + rate · ρ · (g + λθ)
//     θ ← θ − v
// You, Gitman, Ginsburg, "Large batch training of convolutional networks", 2017.
// The rate is inside v, as in the paper: a change of the rate does not change the momentum already gathered.
// Memory traffic per float of θ: as SGD with momentum, and 8 bytes read for the norms. State: velocity, where μ > 0.

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
                 .range = above(0)},
                lars.trust);
}

}  // namespace

OptimizerKind lars() {
  return {.name = "lars",
          .meaning = "SGD with momentum and a learning rate for each block of weights; for large batches",
          .describe = describe_lars,
          .state = lars_state_names,
          .make = make_rule<Lars>,
          .traits = {.has_block_rates = true}};
}

// LAMB: AdamW's direction with a rate for each block of weights, so that a step is in proportion to the weights' size.
//     m, s as in Adam
//     u = m̂ / (√ŝ + ε) + λθ
//     ρ = ‖θ‖ / ‖u‖                            of the block; 1 for biases and norms, and where ‖θ‖ or ‖u‖ is 0
//     θ ← θ − rate · ρ · u
// You et al., "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR 2020, algorithm 2 with
// φ(z) = z.
// Memory traffic per float of θ: 32 bytes read, 12 written, because ‖u‖ must be known before θ moves. State:
// first_moment, second_moment.

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

}  // namespace

OptimizerKind lamb() {
  return {.name = "lamb",
          .meaning = "AdamW with a learning rate for each block of weights; for large batches",
          .describe = describe_lamb,
          .state = lamb_state_names,
          .make = make_rule<Lamb>,
          .traits = {.has_block_rates = true}};
}

}  // namespace unisono::optim
