#pragma once

#include <cmath>
#include <vector>

#include "unisono/kernels/backend.hpp"

// Losses in double, one example at a time, on rows [B, K], with gradients of the sum of the losses.

namespace unisono::reference {

using Row = std::vector<double>;

inline Row row_of(const Row& values, std::size_t n, std::size_t size) {
  const auto first = values.begin() + static_cast<std::ptrdiff_t>(n * size);
  return {first, first + static_cast<std::ptrdiff_t>(size)};
}

/// The target that label smoothing makes of a label.
inline Row smoothed(std::size_t classes, std::int32_t label, double smoothing) {
  Row target(classes, smoothing / static_cast<double>(classes));
  target[static_cast<std::size_t>(label)] += 1 - smoothing;
  return target;
}

/// − Σ t log softmax(z)
inline double softmax_loss(const Row& z, const Row& target) {
  double largest = z[0], sum = 0, loss = 0;
  for (double value : z) largest = std::max(largest, value);
  for (double value : z) sum += std::exp(value - largest);
  for (std::size_t k = 0; k < z.size(); ++k) loss -= target[k] * (z[k] - largest - std::log(sum));
  return loss;
}

inline Row softmax_gradient(const Row& z, const Row& target) {
  double largest = z[0], sum = 0;
  for (double value : z) largest = std::max(largest, value);
  for (double value : z) sum += std::exp(value - largest);
  Row gradient(z.size());
  for (std::size_t k = 0; k < z.size(); ++k) gradient[k] = std::exp(z[k] - largest) / sum - target[k];
  return gradient;
}

/// How many classes come before the label when sorted by logit, equal ones by number.
inline int rank_of(const Row& z, std::int32_t label) {
  const auto l = static_cast<std::size_t>(label);
  int rank = 0;
  for (std::size_t k = 0; k < z.size(); ++k) rank += z[k] > z[l] || (z[k] == z[l] && k < l) ? 1 : 0;
  return rank;
}

/// The mean over the classes of − t log σ(z) − (1 − t) log(1 − σ(z)).
inline double sigmoid_loss(const Row& z, const Row& targets, double smoothing) {
  double loss = 0;
  for (std::size_t k = 0; k < z.size(); ++k) {
    const double t = targets[k] * (1 - smoothing) + smoothing / 2;
    loss += (t * std::log1p(std::exp(-z[k])) + (1 - t) * std::log1p(std::exp(z[k]))) / static_cast<double>(z.size());
  }
  return loss;
}

inline Row sigmoid_gradient(const Row& z, const Row& targets, double smoothing) {
  Row gradient(z.size());
  for (std::size_t k = 0; k < z.size(); ++k) {
    const double t = targets[k] * (1 - smoothing) + smoothing / 2;
    gradient[k] = (1 / (1 + std::exp(-z[k])) - t) / static_cast<double>(z.size());
  }
  return gradient;
}

/// max(0, 1 + the largest other score − the label's)
inline double hinge_loss(const Row& z, std::int32_t label) {
  const auto l = static_cast<std::size_t>(label);
  double loss = 0;
  for (std::size_t k = 0; k < z.size(); ++k) loss = k == l ? loss : std::max(loss, 1 + z[k] - z[l]);
  return loss;
}

/// Of equal scores the first counts.
inline Row hinge_gradient(const Row& z, std::int32_t label) {
  const auto l = static_cast<std::size_t>(label);
  Row gradient(z.size());
  std::size_t other = z.size();
  for (std::size_t k = 0; k < z.size(); ++k) other = k != l && (other == z.size() || z[k] > z[other]) ? k : other;
  if (other == z.size() || 1 + z[other] - z[l] <= 0) return gradient;
  gradient[other] = 1;
  gradient[l] = -1;
  return gradient;
}

/// The mean over the outputs of y − t's loss.
inline double error_loss(const kernels::ErrorSpec& spec, const Row& y, const Row& targets) {
  const double delta = static_cast<double>(spec.delta);
  double loss = 0;
  for (std::size_t k = 0; k < y.size(); ++k) {
    const double error = y[k] - targets[k], size = std::abs(error);
    loss += spec.loss == kernels::ErrorLoss::squared    ? error * error
            : spec.loss == kernels::ErrorLoss::absolute ? size
            : size <= delta                             ? error * error / 2
                                                        : delta * (size - delta / 2);
  }
  return loss / static_cast<double>(y.size());
}

inline Row error_gradient(const kernels::ErrorSpec& spec, const Row& y, const Row& targets) {
  const double delta = static_cast<double>(spec.delta);
  Row gradient(y.size());
  for (std::size_t k = 0; k < y.size(); ++k) {
    const double error = y[k] - targets[k], sign = error > 0 ? 1 : error < 0 ? -1 : 0;
    gradient[k] = (spec.loss == kernels::ErrorLoss::squared    ? 2 * error
                   : spec.loss == kernels::ErrorLoss::absolute ? sign
                   : std::abs(error) <= delta                  ? error
                                                               : delta * sign) /
                  static_cast<double>(y.size());
  }
  return gradient;
}

}  // namespace unisono::reference
