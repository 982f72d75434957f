#pragma once

#include <cmath>

#include "update_rule.hpp"

namespace unisono::optim {

/// The constants of Adam, AdamW and LAMB.
struct AdamConstants {
  double beta1 = 0.9, beta2 = 0.999;
  double epsilon = 1e-8;
  void describe(ConfigVisitor& visitor);
};

/// What Adam, AdamW and LAMB hand to their kernels in their t-th step, t ≥ 1.
/// \param decoupled λθ is added to the direction and not to the gradient
inline kernels::AdamStep adam_step(const AdamConstants& adam, const RuleStep& step, std::int64_t t, bool decoupled) {
  // Of β as the kernels see it, rounded to float: the mean square then starts without a bias.
  const auto correction = [t](double beta) {
    const auto rounded = static_cast<double>(static_cast<float>(beta));
    return static_cast<float>(1.0 / (1.0 - std::pow(rounded, static_cast<double>(t))));
  };
  return {.rate = step.rate,
          .decay = step.decay,
          .beta1 = static_cast<float>(adam.beta1),
          .beta2 = static_cast<float>(adam.beta2),
          .epsilon = static_cast<float>(adam.epsilon),
          .correction1 = correction(adam.beta1),
          .correction2 = correction(adam.beta2),
          .decoupled = decoupled};
}

}  // namespace unisono::optim
