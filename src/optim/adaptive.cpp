#include "update_rule.hpp"

namespace unisono::optim {

// Adam and AdamW: steps of the gradient's running mean over the root of its running mean square.
//     d = g + λθ (Adam),  d = g (AdamW)
//     m ← β₁ m + (1 − β₁) d
//     s ← β₂ s + (1 − β₂) d²
//     θ ← θ − rate · m̂ / (√ŝ + ε)            (Adam)           m̂ = m / (1 − β₁ᵗ),  ŝ = s / (1 − β₂ᵗ)
//     θ ← θ − rate · (m̂ / (√ŝ + ε) + λθ)     (AdamW)
// Kingma, Ba, ICLR 2015; Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.
// Memory traffic per float of θ: 16 bytes read, 12 written. State: first_moment, second_moment.

namespace {

/// adam and adamw have the same keys.
struct AdamSettings {
  AdamConstants constants{};
};

std::vector<std::string> adam_state_names(const OptimizerSettings&) { return {"first_moment", "second_moment"}; }

class Adam final : public UpdateRule {
 public:
  Adam(const OptimizerSettings& settings, const ParameterLayout& layout, kernels::UpdateKernels& kernels,
       bool decoupled)
      : UpdateRule(settings, layout, kernels, adam_state_names(settings)),
        adam_(settings.own.of<AdamSettings>().constants),
        decoupled_(decoupled) {}

 private:
  void update(const RuleStep& step) override {
    backend().adam_update(adam_step(adam_, step, steps(), decoupled_), step.scale, step.ranges, step.g, step.theta,
                          state_vector(0, step), state_vector(1, step));
  }
  std::unique_ptr<kernels::StepAtOnce> update_at_once(const RuleStep& step, kernels::StepKernels& kernels) override {
    return kernels.adam_at_once(adam_step(adam_, step, steps(), decoupled_), step.scale.factor, step.ranges, step.theta,
                                state_vector(0, step), state_vector(1, step));
  }

  AdamConstants adam_;
  bool decoupled_;
};

void describe_adam(OptimizerSettings& settings, ConfigVisitor& visitor) {
  settings.own.of<AdamSettings>().constants.describe(visitor);
}

template <bool kDecoupled>
std::unique_ptr<Optimizer> make_adam(const OptimizerSettings& settings, const ParameterLayout& layout,
                                     kernels::UpdateKernels& kernels) {
  return std::make_unique<Adam>(settings, layout, kernels, kDecoupled);
}

}  // namespace

void AdamConstants::describe(ConfigVisitor& visitor) {
  visitor.field({.name = "beta1",
                 .meaning = "decay rate of the moving average of gradients",
                 .range = at_least(0).at_most(0.999999)},
                beta1);
  visitor.field({.name = "beta2",
                 .meaning = "decay rate of the moving average of squared gradients",
                 .range = at_least(0).at_most(0.999999)},
                beta2);
  describe_epsilon(visitor, epsilon);
}

OptimizerKind adam() {
  return {.name = "adam",
          .meaning = "moving averages of gradients and squared gradients",
          .describe = describe_adam,
          .state = adam_state_names,
          .make = make_adam</*kDecoupled=*/false>};
}

OptimizerKind adamw() {
  return {.name = "adamw",
          .meaning = "Adam with decoupled weight decay",
          .describe = describe_adam,
          .state = adam_state_names,
          .make = make_adam</*kDecoupled=*/true>};
}

// Adagrad: a rate for each parameter that shrinks with the squares it has seen.
//     d = g + λθ
//     a ← a + d²
//     θ ← θ − rate · d / (√a + ε)
// Duchi, Hazan, Singer, JMLR 12, 2011.
// Memory traffic per float of θ: 12 bytes read, 8 written. State: accumulator.

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

}  // namespace

OptimizerKind adagrad() {
  return {.name = "adagrad",
          .meaning = "a learning rate for each parameter, from the sum of all squared gradients so far",
          .describe = describe_adagrad,
          .state = adagrad_state_names,
          .make = make_rule<Adagrad>};
}

// RMSProp: the gradient divided by a running root of its mean square.
//     d = g + λθ
//     s ← α s + (1 − α) d²
//     θ ← θ − rate · d / (√s + ε)
// Tieleman, Hinton, "Neural networks for machine learning", lecture 6.5, 2012.
// Memory traffic per float of θ: 12 bytes read, 8 written. State: mean_square.

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
                 .range = at_least(0).at_most(0.999999)},
                rmsprop.smoothing);
  describe_epsilon(visitor, rmsprop.epsilon);
}

}  // namespace

OptimizerKind rmsprop() {
  return {.name = "rmsprop",
          .meaning = "a learning rate for each parameter, from a moving average of squared gradients",
          .describe = describe_rmsprop,
          .state = rmsprop_state_names,
          .make = make_rule<Rmsprop>};
}

}  // namespace unisono::optim
