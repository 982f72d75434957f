#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "reference_products.hpp"

namespace unisono::reference {

/// Calls visit(position, channel) for every value of a batch.
template <typename Visit>
void for_each_value(const kernels::Extent& e, Index batch, Visit visit) {
  for (Index i = 0; i < batch * e.size(); ++i) {
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(i / (e.height * e.width) % e.channels));
  }
}

inline double normalised(View x, View mean, View inverse_deviation, std::size_t i, std::size_t c) {
  return (static_cast<double>(x[i]) - mean[c]) * inverse_deviation[c];
}

inline double values_of_channel(const kernels::Extent& e, Index batch) {
  return static_cast<double>(batch * e.height * e.width);
}

/// Ioffe & Szegedy 2015, algorithm 1, from Σ x, Σ x² and n; running averages of the mean and the unbiased variance.
inline void batch_norm_moments(const kernels::NormSpec& s, std::span<const double> sums, double momentum,
                               MutableView running_mean, MutableView running_variance, MutableView mean,
                               MutableView inverse_deviation) {
  const double n = sums.back();
  const auto channels = static_cast<std::size_t>(s.extent.channels);
  for (std::size_t c = 0; n > 0 && c < channels; ++c) {
    const double average = sums[c] / n, variance = std::max(0.0, sums[channels + c] / n - average * average);
    const double unbiased = n > 1 ? variance * n / (n - 1) : 0;
    if (!mean.empty()) {
      mean[c] = static_cast<float>(average);
      inverse_deviation[c] = static_cast<float>(1 / std::sqrt(variance + s.epsilon));
    }
    if (running_mean.empty()) continue;
    running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * average);
    running_variance[c] = static_cast<float>((1 - momentum) * running_variance[c] + momentum * unbiased);
  }
}

/// Places of the values that are normalised together, from `first` on: those of an example, or of a pixel's channels.
struct NormRow {
  std::size_t first, step, count;
  std::size_t at(std::size_t i) const { return first + i * step; }
};
template <typename Visit>
void for_each_row(const kernels::NormSpec& s, Index batch, Visit visit) {
  const auto size = static_cast<std::size_t>(s.extent.size());
  const std::size_t pixels = s.of_pixels ? static_cast<std::size_t>(s.extent.height * s.extent.width) : 1;
  for (std::size_t b = 0; b < static_cast<std::size_t>(batch); ++b) {
    for (std::size_t pixel = 0; pixel < pixels; ++pixel) visit(NormRow{b * size + pixel, pixels, size / pixels});
  }
}

/// Mean and inverse deviation of a row's values.
struct Moments {
  double mean = 0, inverse_deviation = 0;
};
inline Moments moments_of(View x, const NormRow& row, double epsilon) {
  const auto n = static_cast<double>(row.count);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < row.count; ++i) sum += x[row.at(i)];
  for (std::size_t i = 0; i < row.count; ++i) squares += (x[row.at(i)] - sum / n) * (x[row.at(i)] - sum / n);
  return {sum / n, 1 / std::sqrt(squares / n + epsilon)};
}

inline void layer_norm_forward(const kernels::NormSpec& s, Index batch, View x, View gamma, View beta, MutableView y) {
  for_each_row(s, batch, [&](const NormRow& row) {
    const Moments of = moments_of(x, row, s.epsilon);
    for (std::size_t i = 0; i < row.count; ++i) {
      y[row.at(i)] = static_cast<float>(gamma[i] * (x[row.at(i)] - of.mean) * of.inverse_deviation + beta[i]);
    }
  });
}

/// With d = γ ⊙ dy: dx = (d − mean(d) − x̂ mean(d ⊙ x̂)) · inverse deviation.
inline void layer_norm_backward(const kernels::NormSpec& s, Index batch, View x, View gamma, View dy, MutableView dx,
                                MutableView dgamma, MutableView dbeta, kernels::Write write) {
  std::vector<double> sum_gamma(gamma.size(), 0.0), sum_beta(gamma.size(), 0.0);
  for_each_row(s, batch, [&](const NormRow& row) {
    const Moments of = moments_of(x, row, s.epsilon);
    const auto hat = [&](std::size_t i) { return (x[row.at(i)] - of.mean) * of.inverse_deviation; };
    const auto n = static_cast<double>(row.count);
    double mean_d = 0, mean_dx = 0;
    for (std::size_t i = 0; i < row.count; ++i) {
      const double d = static_cast<double>(gamma[i]) * dy[row.at(i)];
      mean_d += d / n;
      mean_dx += d * hat(i) / n;
      sum_gamma[i] += dy[row.at(i)] * hat(i);
      sum_beta[i] += dy[row.at(i)];
    }
    for (std::size_t i = 0; i < row.count && !dx.empty(); ++i) {
      const double d = static_cast<double>(gamma[i]) * dy[row.at(i)];
      dx[row.at(i)] = static_cast<float>((d - mean_d - hat(i) * mean_dx) * of.inverse_deviation);
    }
  });
  if (dgamma.empty()) return;
  for (std::size_t i = 0; i < gamma.size(); ++i) store_sum(dgamma[i], sum_gamma[i], write);
  for (std::size_t i = 0; i < gamma.size(); ++i) store_sum(dbeta[i], sum_beta[i], write);
}

}  // namespace unisono::reference
