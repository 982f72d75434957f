#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
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
inline double skip_gram(std::span<const std::int32_t> context, const kernels::OutputWords& outputs, double rate,
                        Matrix& inputs, Matrix& output_rows) {
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

/// Continuous bag of words as word2vec has it: the mean's gradient goes to each word undivided. Returns the loss.
inline double cbow(std::span<const std::int32_t> context, const kernels::OutputWords& outputs, double rate,
                   Matrix& inputs, Matrix& output_rows) {
  std::vector<double> h(inputs.width), delta(inputs.width);
  for (std::int32_t word : context) add_scaled(h, 1 / static_cast<double>(context.size()), inputs.row(word));
  double loss = 0;
  for (std::size_t o = 0; o < outputs.rows.size(); ++o) {
    const auto y = output_rows.row(outputs.rows[o]);
    const double z = dot(h, y), error = rate * (outputs.targets[o] - sigmoid(z));
    add_scaled(delta, error, y);
    add_scaled(y, error, h);
    loss += sigmoid_loss(z, outputs.targets[o]);
  }
  for (std::int32_t word : context) add_scaled(inputs.row(word), 1, delta);
  return loss;
}

/// A sparse or dense row: its features and their values.
using Features = std::vector<std::pair<std::size_t, double>>;

/// Weights, and the sums u of averaged SGD beside each.
struct Weights {
  std::vector<double> w, u;
};

/// w_j ← w_j − move, then both penalties, each not beyond 0. `before` updates were made.
inline void linear_update(double& w, double& u, double move, double spread, const kernels::LinearStep& s,
                          double before) {
  const double old = w;
  w -= std::fmin(1.0, s.rate * static_cast<double>(s.l2) * spread) * w + move;
  const double less = s.rate * static_cast<double>(s.l1) * spread;
  w = std::abs(w) < less ? 0 : w - std::copysign(less, w);
  u += before * (w - old);
}

inline double margin_loss(kernels::MarginLoss loss, double z, double answer) {
  if (loss == kernels::MarginLoss::squared) return 0.5 * (z - answer) * (z - answer);
  if (loss == kernels::MarginLoss::logistic) return sigmoid_loss(z, answer);
  const double slack = std::fmax(0.0, 1 - (2 * answer - 1) * z);
  return loss == kernels::MarginLoss::squared_hinge ? slack * slack : slack;
}

inline double margin_derivative(kernels::MarginLoss loss, double z, double answer) {
  if (loss == kernels::MarginLoss::squared) return z - answer;
  if (loss == kernels::MarginLoss::logistic) return sigmoid(z) - answer;
  const double y = 2 * answer - 1;
  if (loss == kernels::MarginLoss::squared_hinge) return -2 * y * std::fmax(0.0, 1 - y * z);
  return y * z < 1 ? -y : 0;
}

/// One example's step; the last weight is the bias, which has no penalty and whose feature is 1 or, without a bias, 0.
/// Returns the margin.
inline double linear(const Features& x, double answer, kernels::MarginLoss loss, const kernels::LinearStep& s,
                     double bias_feature, double before, Weights& weights) {
  double &bias = weights.w.back(), &bias_sum = weights.u.back();
  double z = bias_feature * bias;
  for (const auto& [j, value] : x) z += weights.w[j] * value;
  const double move = s.rate * margin_derivative(loss, z, answer);
  for (const auto& [j, value] : x) {
    linear_update(weights.w[j], weights.u[j], move * value, s.spread == nullptr ? 0 : s.spread[j], s, before);
  }
  bias -= bias_feature * move;
  bias_sum -= bias_feature * before * move;
  return z;
}

/// One example's step of softmax regression; rows of weights and of sums are features, the last the bias, which has no
/// penalty and whose feature is 1 or 0. Returns the margins.
inline std::vector<double> softmax(const Features& x, std::size_t label, const kernels::LinearStep& s,
                                   double bias_feature, double before, Matrix& weights, Matrix& sums) {
  const std::size_t classes = weights.width, bias = weights.values.size() / classes - 1;
  std::vector<double> z(classes);
  add_scaled(z, bias_feature, weights.row(static_cast<std::int64_t>(bias)));
  for (const auto& [j, value] : x) add_scaled(z, value, weights.row(static_cast<std::int64_t>(j)));
  double whole = 0;
  for (double margin : z) whole += std::exp(margin);
  for (std::size_t k = 0; k < classes; ++k) {
    const double move = s.rate * (std::exp(z[k]) / whole - (k == label ? 1 : 0));
    for (const auto& [j, value] : x) {
      linear_update(weights.values[j * classes + k], sums.values[j * classes + k], move * value,
                    s.spread == nullptr ? 0 : s.spread[j], s, before);
    }
    weights.values[bias * classes + k] -= bias_feature * move;
    sums.values[bias * classes + k] -= bias_feature * before * move;
  }
  return z;
}

inline double cross_entropy(const std::vector<double>& z, std::size_t label) {
  double sum = 0;
  for (double margin : z) sum += std::exp(margin - z[label]);
  return std::log(sum);
}

/// Users or items: factors, and for each row its bias and h.
struct Factors {
  Matrix rows;
  std::vector<double> bias, squares;
};

/// Chin et al. 2015 with one rate a row, or plain SGD: one rating. Returns its error.
inline double factorize(const SparseEntry& rating, const kernels::FactorStep& s, Factors& users, Factors& items) {
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

/// Words or contexts: D weights and the bias, and the sum of squares of each.
struct GloveVectors {
  Matrix rows, squares;
};

/// Pennington et al. 2014: one entry. Returns its loss.
inline double glove(const SparseEntry& entry, const kernels::GloveStep& s, GloveVectors& words,
                    GloveVectors& contexts) {
  const auto w = words.rows.row(entry.row), v = contexts.rows.row(entry.column);
  const std::vector<double> old_w(w.begin(), w.end()), old_v(v.begin(), v.end());
  const std::size_t dimension = w.size() - 1;
  const double x = entry.value;
  double d = w[dimension] + v[dimension] - std::log(x);
  for (std::size_t k = 0; k < dimension; ++k) d += w[k] * v[k];
  const double f = std::fmin(1.0, std::pow(x / s.x_max, static_cast<double>(s.alpha)));
  for (std::size_t k = 0; k <= dimension; ++k) {
    const double g_w = f * d * (k < dimension ? old_v[k] : 1), g_v = f * d * (k < dimension ? old_w[k] : 1);
    double &sum_w = words.squares.row(entry.row)[k], &sum_v = contexts.squares.row(entry.column)[k];
    w[k] -= s.rate * g_w / std::sqrt(sum_w);
    v[k] -= s.rate * g_v / std::sqrt(sum_v);
    sum_w += g_w * g_w;
    sum_v += g_v * g_v;
  }
  return 0.5 * f * d * d;
}

}  // namespace unisono::reference
