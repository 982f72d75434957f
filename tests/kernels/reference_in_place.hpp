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

/// Users or items: factors, and for each row its bias and h.
struct Factors {
  Matrix rows;
  std::vector<double> bias, squares;
};

/// Chin et al. 2015 with one rate a row, or plain SGD: one rating. Returns its error.
inline double factorize(const SparseEntry& rating, const FactorStep& s, Factors& users, Factors& items) {
  const std::vector<double> p(users.rows.row(rating.row).begin(), users.rows.row(rating.row).end());
  const std::vector<double> q(items.rows.row(rating.column).begin(), items.rows.row(rating.column).end());
  double &b = users.bias[rating.row], &c = items.bias[rating.column];
  const double e = rating.value - (s.mean + (s.biases ? b + c : 0) + dot(p, q));
  const auto move = [&](Factors& factors, std::uint32_t row, double l2, const auto& own, const auto& other) {
    double& h = factors.squares[row];
    const double rate = s.adagrad ? s.rate / std::sqrt(h) : s.rate;
    double norm = 0;
    for (std::size_t k = 0; k < own.size(); ++k) {
      const double g = e * other[k] - l2 * own[k];
      factors.rows.row(row)[k] += rate * g;
      norm += g * g;
    }
    if (s.adagrad) h += norm / static_cast<double>(own.size());
    if (s.biases) factors.bias[row] += rate * (e - l2 * factors.bias[row]);
  };
  move(users, rating.row, s.user_l2, p, q);
  move(items, rating.column, s.item_l2, q, p);
  return e;
}

}  // namespace unisono::reference
