#pragma once

#include <algorithm>
#include <cmath>

#include "optimizers.hpp"
#include "training.hpp"

namespace unisono::strategies {

inline constexpr double kUnitRoundoff = 0x1p-24;

/// How far θ of two least-squares runs may lie apart that differ in nothing but the order of summation.
///
/// With |x| ≤ 1 no term of a gradient is larger than G = 2 √(loss of the step). A mean of n terms, each from d + 8
/// operations, is off by at most (n + d + 8) u G in either run; so is a weighted mean of n-term means. A step rounds θ
/// once in each run, averaging it three times more. Gradient descent below its critical rate does not widen what is
/// apart already; momentum μ carries every error on for 1/(1 − μ) steps.
inline double rounding_of(const Outcome& run, const Training& training, Index inputs) {
  const double largest_loss = *std::max_element(run.losses.begin(), run.losses.end());
  float largest_parameter = 0;
  for (const auto& theta : run.trajectory) {
    for (const float value : theta) largest_parameter = std::max(largest_parameter, std::abs(value));
  }
  const double terms = static_cast<double>(training.batch_size + inputs + 8);
  const double of_gradient = 2 * terms * kUnitRoundoff * 2 * std::sqrt(largest_loss);
  const double of_parameters = 2 * 4 * kUnitRoundoff * static_cast<double>(largest_parameter);
  const double a_step = training.optimizer.learning_rate * of_gradient + of_parameters;
  return static_cast<double>(run.records.size()) * a_step / (1 - optim::number_of(training.optimizer, "momentum"));
}

}  // namespace unisono::strategies
