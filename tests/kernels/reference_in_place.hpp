#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/kernels/in_place.hpp"

// Models that are updated in place, in double, one number at a time, written after the papers.

namespace unisono::reference {

/// Rows of `width` doubles, one behind the other.
struct Matrix {
  std::vector<double> values;
  std::size_t width = 0;

  std::span<double> row(std::int64_t i) { return {values.data() + static_cast<std::size_t>(i) * width, width}; }
};

inline double dot(std::span<const double> a, std::span<const double> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// a ← a + factor b
inline void add_scaled(std::span<double> a, double factor, std::span<const double> b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += factor * b[i];
}

inline double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

/// −ln σ(z) for a target of 1, −ln σ(−z) for 0.
inline double sigmoid_loss(double z, double target) {
  return std::log1p(std::exp(-std::abs(z))) + std::fmax(z, 0.0) - target * z;
}

/// Mikolov et al. 2013, with a window's outputs shared: every pair by itself, from the values before the window.
/// Returns the loss.
inline double skip_gram(std::span<const std::int32_t> context, const OutputWords& outputs, double rate, Matrix& inputs,
                        Matrix& output_rows) {
  Matrix x = inputs, y = output_rows;  // the old ones
  double loss = 0;
  for (std::int32_t word : context) {
    for (std::size_t o = 0; o < outputs.rows.size(); ++o) {
      const double z = dot(x.row(word), y.row(outputs.rows[o]));
      const double error = rate * (outputs.targets[o] - sigmoid(z));
      add_scaled(inputs.row(word), error, y.row(outputs.rows[o]));
      add_scaled(output_rows.row(outputs.rows[o]), error, x.row(word));
      loss += sigmoid_loss(z, outputs.targets[o]);
    }
  }
  return loss;
}

}  // namespace unisono::reference
