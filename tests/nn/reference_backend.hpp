#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>

#include "reference_norms.hpp"
#include "reference_products.hpp"
#include "reference_sequence_kernels.hpp"
#include "unisono/base/random.hpp"

namespace unisono::nn {

/// A backend of plain loops: activations in the canonical layout, parameters in the canonical order, sums in double.
/// Slow, and easy to believe. Update rules are no part of a network, and not of this.
class ReferenceBackend final : public ReferenceSequenceKernels {
 public:
  std::string_view platform() const override { return "reference"; }
  std::string description() const override { return "reference"; }
  int threads() const override { return 1; }
  double measure_peak_flops_per_second() override { return 0; }
  double measure_bandwidth_bytes_per_second() override { return 0; }

  Index activation_size(const kernels::Extent& extent, Index batch) const override { return extent.size() * batch; }
  Index scratch_size() const override { return 0; }
  std::vector<int> dense_weight_axes() const override { return {0, 1, 2, 3}; }
  std::vector<int> convolution_weight_axes() const override { return {0, 1, 2, 3}; }
  std::vector<int> feature_axes() const override { return {0, 1, 2}; }
  void load(const kernels::Extent& extent, Index batch, View values, MutableView x) override {
    std::copy_n(values.begin(), batch * extent.size(), x.begin());
  }
  void store(const kernels::Extent& extent, Index batch, View x, MutableView values) override {
    std::copy_n(x.begin(), batch * extent.size(), values.begin());
  }

  void dense_forward(const kernels::DenseSpec& s, Index batch, View x, View w, View b, MutableView y) override {
    reference::convolution_forward(reference::as_convolution(s), batch, x, w, b, y);
  }
  void dense_backward(const kernels::DenseSpec& s, Index batch, View x, View w, View y, MutableView dy, MutableView dx,
                      MutableView dw, MutableView db, kernels::Write write) override {
    reference::convolution_backward(reference::as_convolution(s), batch, x, w, y, dy, dx, dw, db, write);
  }
  void convolution_forward(const kernels::ConvolutionSpec& s, Index batch, View x, View w, View b,
                           MutableView y) override {
    reference::convolution_forward(s, batch, x, w, b, y);
  }
  void convolution_backward(const kernels::ConvolutionSpec& s, Index batch, View x, View w, View y, MutableView dy,
                            MutableView dx, MutableView dw, MutableView db, kernels::Write write) override {
    reference::convolution_backward(s, batch, x, w, y, dy, dx, dw, db, write);
  }

  void pool_forward(const kernels::PoolSpec& spec, Index batch, View x, MutableView y) override;
  void pool_backward(const kernels::PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) override;
  void global_average_pool_forward(const kernels::Extent& e, Index batch, View x, MutableView y) override {
    pool_forward(whole(e), batch, x, y);
  }
  void global_average_pool_backward(const kernels::Extent& e, Index batch, View dy, MutableView dx) override {
    pool_backward(whole(e), batch, {}, {}, dy, dx);
  }

  static double normalised(View x, const kernels::NormTerms& terms, std::size_t i, std::size_t c) {
    return reference::normalised(x, terms.mean, terms.inverse_deviation, i, c);
  }
  /// dy where the forward pass without a residual let y through.
  static float masked(const kernels::NormSpec& s, View x, const kernels::NormTerms& terms, View dy, std::size_t i,
                      std::size_t c) {
    const bool passes = s.relu_mask() != kernels::ReluMask::from_input ||
                        terms.gamma[c] * normalised(x, terms, i, c) + terms.beta[c] > 0;
    return passes ? dy[i] : 0;
  }
  void batch_norm_sums(const kernels::NormSpec& s, Index batch, View x, std::span<double> sums) override {
    std::fill(sums.begin(), sums.end(), 0.0);
    reference::for_each_value(s.extent, batch, [&](std::size_t i, std::size_t c) {
      sums[c] += x[i];
      sums[sums.size() / 2 + c] += static_cast<double>(x[i]) * x[i];
    });
    sums.back() = reference::values_of_channel(s.extent, batch);
  }
  void batch_norm_moments(const kernels::NormSpec& s, std::span<const double> sums, double momentum,
                          MutableView running_mean, MutableView running_variance, MutableView mean,
                          MutableView inverse_deviation) override {
    reference::batch_norm_moments(s, sums, momentum, running_mean, running_variance, mean, inverse_deviation);
  }
  void batch_norm_running_moments(const kernels::NormSpec& s, View running_mean, View running_variance,
                                  MutableView mean, MutableView inverse_deviation) override {
    for (std::size_t c = 0; c < mean.size(); ++c) {
      mean[c] = running_mean[c];
      inverse_deviation[c] = static_cast<float>(1 / std::sqrt(running_variance[c] + s.epsilon));
    }
  }
  void batch_norm_forward(const kernels::NormSpec& s, Index batch, View x, const kernels::NormTerms& terms,
                          View residual, MutableView y) override {
    reference::for_each_value(s.extent, batch, [&](std::size_t i, std::size_t c) {
      const double value = terms.gamma[c] * normalised(x, terms, i, c) + terms.beta[c];
      y[i] = reference::activated(s.activation, value + (residual.empty() ? 0 : residual[i]));
    });
  }
  void batch_norm_backward_sums(const kernels::NormSpec& s, Index batch, View x, const kernels::NormTerms& terms,
                                View y, MutableView dy, std::span<double> sums) override {
    if (s.relu_mask() == kernels::ReluMask::from_output) {
      reference::mask_by_relu(s.activation, y, dy.first(static_cast<std::size_t>(batch * s.extent.size())));
    }
    std::fill(sums.begin(), sums.end(), 0.0);
    reference::for_each_value(s.extent, batch, [&](std::size_t i, std::size_t c) {
      const float d = masked(s, x, terms, dy, i, c);
      sums[c] += d;
      sums[sums.size() / 2 + c] += d * normalised(x, terms, i, c);
    });
    sums.back() = reference::values_of_channel(s.extent, batch);
  }
  void batch_norm_parameter_gradients(const kernels::NormSpec&, std::span<const double> sums, MutableView dgamma,
                                      MutableView dbeta, kernels::Write write) override {
    // Rounded before they are added, as on devices: in halves of a backward pass they lie somewhere in between.
    for (std::size_t c = 0; c < dbeta.size(); ++c) reference::store_sum(dbeta[c], static_cast<float>(sums[c]), write);
    for (std::size_t c = 0; c < dgamma.size(); ++c) {
      reference::store_sum(dgamma[c], static_cast<float>(sums[dbeta.size() + c]), write);
    }
  }
  void batch_norm_backward(const kernels::NormSpec& s, Index batch, View x, const kernels::NormTerms& terms, View dy,
                           std::span<const double> sums, MutableView dx) override {
    const double n = sums.back();
    reference::for_each_value(s.extent, batch, [&](std::size_t i, std::size_t c) {
      const double hat = normalised(x, terms, i, c);
      const double common = n > 0 ? (sums[c] + hat * sums[sums.size() / 2 + c]) / n : 0;
      dx[i] =
          static_cast<float>(terms.gamma[c] * terms.inverse_deviation[c] * (masked(s, x, terms, dy, i, c) - common));
    });
  }
  void layer_norm_forward(const kernels::NormSpec& s, Index batch, View x, View gamma, View beta,
                          MutableView y) override {
    reference::layer_norm_forward(s, batch, x, gamma, beta, y);
  }
  void layer_norm_backward(const kernels::NormSpec& s, Index batch, View x, View gamma, View dy, MutableView dx,
                           MutableView dgamma, MutableView dbeta, kernels::Write write) override {
    reference::layer_norm_backward(s, batch, x, gamma, dy, dx, dgamma, dbeta, write);
  }

  void activation_forward(const kernels::ActivationSpec& activation, const kernels::Extent& e, Index batch, View x,
                          MutableView y) override;
  void activation_backward(const kernels::ActivationSpec& activation, const kernels::Extent& e, Index batch, View x,
                           View y, View dy, MutableView dx) override;
  void dropout(const kernels::DropoutKey& key, const kernels::Extent& extent, std::span<const std::uint64_t> examples,
               View x, MutableView y) override;
  static std::size_t plane_of(const kernels::Extent& e, std::size_t i) {
    return i / static_cast<std::size_t>(e.height * e.width);
  }
  void channel_gate_forward(const kernels::Extent& e, Index batch, View x, View factors, MutableView y) override {
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch * e.size()); ++i) y[i] = x[i] * factors[plane_of(e, i)];
  }
  void channel_gate_backward(const kernels::Extent& e, Index batch, View x, View factors, View dy, MutableView dx,
                             MutableView dfactors) override {
    std::vector<double> sums(static_cast<std::size_t>(batch * e.channels), 0.0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch * e.size()); ++i) {
      sums[plane_of(e, i)] += static_cast<double>(x[i]) * dy[i];
      if (!dx.empty()) dx[i] = dy[i] * factors[plane_of(e, i)];
    }
    if (dfactors.empty()) return;
    std::transform(sums.begin(), sums.end(), dfactors.begin(), [](double sum) { return static_cast<float>(sum); });
  }
  void add(const kernels::Extent& extent, Index batch, View x, MutableView y) override {
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch * extent.size()); ++i) y[i] += x[i];
  }

  void softmax_cross_entropy(Index classes, Index batch, View logits, const kernels::Labels& labels, float smoothing,
                             const kernels::LossScale& scale, MutableView dlogits, kernels::LossSums& sums) override;
  void multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                        const kernels::LossScale& scale, MutableView dscores, kernels::LossSums& sums) override;
  void sigmoid_cross_entropy(const kernels::Extent& extent, Index batch, View logits, const kernels::Labels& labels,
                             View targets, float smoothing, const kernels::LossScale& scale, MutableView dlogits,
                             kernels::LossSums& sums) override;
  void error_loss(const kernels::ErrorSpec& spec, Index batch, View outputs, View targets,
                  const kernels::LossScale& scale, MutableView doutputs, kernels::LossSums& sums) override;

  void clear(MutableView x) override { std::fill(x.begin(), x.end(), 0.0F); }
  double dot(View x, View y) override {
    double sum = 0;
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * y[i];
    return sum;
  }
  double squared_norm(View x) override { return dot(x, x); }
  void squared_norms(View x, std::span<const kernels::UpdateRange> ranges, std::span<double> norms) override {
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      norms[i] = squared_norm(x.subspan(static_cast<std::size_t>(ranges[i].first),
                                        static_cast<std::size_t>(ranges[i].last - ranges[i].first)));
    }
  }
  void axpby(float a, View x, float b, MutableView y) override {
    for (std::size_t i = 0; i < y.size(); ++i) y[i] = a * x[i] + (b == 0 ? 0 : b * y[i]);
  }

  using Ranges = std::span<const kernels::UpdateRange>;
  void sgd_update(const kernels::SgdStep&, const kernels::GradientScale&, Ranges, View, MutableView,
                  MutableView) override {
    no_updates();
  }
  void adagrad_update(const kernels::AdagradStep&, const kernels::GradientScale&, Ranges, View, MutableView,
                      MutableView) override {
    no_updates();
  }
  void rmsprop_update(const kernels::RmspropStep&, const kernels::GradientScale&, Ranges, View, MutableView,
                      MutableView) override {
    no_updates();
  }
  void adam_update(const kernels::AdamStep&, const kernels::GradientScale&, Ranges, View, MutableView, MutableView,
                   MutableView) override {
    no_updates();
  }
  void lars_update(const kernels::LarsStep&, const kernels::GradientScale&, Ranges, const kernels::RangeNorms&, View,
                   MutableView, MutableView) override {
    no_updates();
  }
  void lamb_moments(const kernels::AdamStep&, const kernels::GradientScale&, Ranges, View, View, MutableView,
                    MutableView, std::span<double>) override {
    no_updates();
  }
  void lamb_apply(const kernels::AdamStep&, Ranges, const kernels::RangeNorms&, MutableView, View, View) override {
    no_updates();
  }

 private:
  static void no_updates() { throw std::logic_error("the reference backend has no update rules"); }
  static kernels::PoolSpec whole(const kernels::Extent& e) {
    return {kernels::PoolKind::average, e, e.height, e.width, e.height, e.width, 0, 0};
  }
};

}  // namespace unisono::nn

namespace unisono::reference {

/// Calls visit(position in y, positions in x of the window's values, in row-major order).
template <typename Visit>
void for_each_window(const kernels::PoolSpec& s, Index batch, Visit visit) {
  const kernels::Extent out = s.out();
  std::vector<std::size_t> window;
  for (Index b = 0; b < batch; ++b)
    for (Index c = 0; c < out.channels; ++c)
      for (Index i = 0; i < out.height; ++i)
        for (Index j = 0; j < out.width; ++j) {
          window.clear();
          const kernels::PoolWindow rows = s.rows_of(i), columns = s.columns_of(j);
          for (Index row = rows.first; row < rows.last; ++row)
            for (Index column = columns.first; column < columns.last; ++column)
              window.push_back(at(s.in, b, c, row, column));
          visit(at(out, b, c, i, j), window);
        }
}

inline double phi(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

inline double logistic(double x) { return 1 / (1 + std::exp(-x)); }

inline double gelu_argument(double x) { return std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x); }

inline double activate(const kernels::ActivationSpec& activation, double x) {
  switch (activation.kind) {
    case kernels::Activation::relu:
      return std::max(x, 0.0);
    case kernels::Activation::gelu:
      return x * phi(x);
    case kernels::Activation::tanh:
      return std::tanh(x);
    case kernels::Activation::sigmoid:
      return logistic(x);
    case kernels::Activation::silu:
      return x * logistic(x);
    case kernels::Activation::leaky_relu:
      return x > 0 ? x : activation.number * x;
    case kernels::Activation::elu:
      return x > 0 ? x : activation.number * std::expm1(x);
    case kernels::Activation::softplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case kernels::Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(gelu_argument(x)));
    default:
      return x;
  }
}

/// Those of GELUs and SiLU from x, the others from y.
inline double slope(const kernels::ActivationSpec& activation, double x, double y) {
  switch (activation.kind) {
    case kernels::Activation::relu:
      return y > 0 ? 1 : 0;
    case kernels::Activation::gelu:
      return phi(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    case kernels::Activation::tanh:
      return 1 - y * y;
    case kernels::Activation::sigmoid:
      return y * (1 - y);
    case kernels::Activation::silu:
      return logistic(x) * (1 + x * logistic(-x));
    case kernels::Activation::leaky_relu:
      return y > 0 ? 1 : activation.number;
    case kernels::Activation::elu:
      return y > 0 ? 1 : y + activation.number;
    case kernels::Activation::softplus:
      return -std::expm1(-y);
    case kernels::Activation::gelu_tanh: {
      const double t = std::tanh(gelu_argument(x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * x * x);
    }
    default:
      return 1;
  }
}

/// Of an example; 1 where there are no weights.
inline double weight_of(const kernels::LossScale& scale, std::size_t b) {
  return scale.weights.empty() ? 1.0 : scale.weights[b];
}

/// An example's target of class k.
inline double target_of(const kernels::Labels& labels, std::size_t b, std::size_t k) {
  const double share = labels.mixed() ? labels.shares[b] : 0.0;
  double target = static_cast<std::size_t>(labels.first[b]) == k ? 1 - share : 0.0;
  if (labels.mixed() && static_cast<std::size_t>(labels.second[b]) == k) target += share;
  return target;
}

}  // namespace unisono::reference

namespace unisono::nn {

inline void ReferenceBackend::pool_forward(const kernels::PoolSpec& s, Index batch, View x, MutableView y) {
  reference::for_each_window(s, batch, [&](std::size_t to, const std::vector<std::size_t>& window) {
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    for (const std::size_t i : window) {
      sum += x[i];
      largest = std::max<double>(largest, x[i]);
    }
    y[to] = static_cast<float>(s.kind == kernels::PoolKind::max ? largest : sum / static_cast<double>(window.size()));
  });
}

inline void ReferenceBackend::pool_backward(const kernels::PoolSpec& s, Index batch, View x, View, View dy,
                                            MutableView dx) {
  std::vector<double> sums(static_cast<std::size_t>(batch * s.in.size()), 0.0);
  reference::for_each_window(s, batch, [&](std::size_t from, const std::vector<std::size_t>& window) {
    if (s.kind == kernels::PoolKind::max) {
      sums[*std::max_element(window.begin(), window.end(), [&](auto a, auto b) { return x[a] < x[b]; })] += dy[from];
    } else {
      for (const std::size_t i : window) sums[i] += dy[from] / static_cast<double>(window.size());
    }
  });
  std::transform(sums.begin(), sums.end(), dx.begin(), [](double sum) { return static_cast<float>(sum); });
}

inline void ReferenceBackend::activation_forward(const kernels::ActivationSpec& activation, const kernels::Extent& e,
                                                 Index batch, View x, MutableView y) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch * e.size()); ++i) {
    y[i] = static_cast<float>(reference::activate(activation, x[i]));
  }
}

inline void ReferenceBackend::activation_backward(const kernels::ActivationSpec& activation, const kernels::Extent& e,
                                                  Index batch, View x, View y, View dy, MutableView dx) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch * e.size()); ++i) {
    dx[i] = static_cast<float>(dy[i] * reference::slope(activation, x.empty() ? 0 : x[i], y.empty() ? 0 : y[i]));
  }
}

inline void ReferenceBackend::dropout(const kernels::DropoutKey& key, const kernels::Extent& e,
                                      std::span<const std::uint64_t> examples, View x, MutableView y) {
  const auto size = static_cast<std::size_t>(e.size());
  for (std::size_t b = 0; b < examples.size(); ++b) {
    RandomStream random(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout, examples[b], key.epoch);
    random.skip(static_cast<std::uint64_t>(key.first));
    for (std::size_t i = b * size; i < (b + 1) * size; ++i)
      y[i] = random.uniform() < key.rate ? 0 : x[i] / (1 - key.rate);
  }
}

inline void ReferenceBackend::softmax_cross_entropy(Index classes, Index batch, View logits,
                                                    const kernels::Labels& labels, float smoothing,
                                                    const kernels::LossScale& scale, MutableView dlogits,
                                                    kernels::LossSums& sums) {
  const auto k = static_cast<std::size_t>(classes);
  for (std::size_t b = 0; b < static_cast<std::size_t>(batch); ++b) {
    const View row = logits.subspan(b * k, k);
    const auto label = static_cast<std::size_t>(labels.first[b]);
    const double largest = *std::max_element(row.begin(), row.end()), weight = reference::weight_of(scale, b);
    double total = 0;
    for (const float z : row) total += std::exp(z - largest);
    Index better = 0;  // classes that are chosen before the label
    for (std::size_t i = 0; i < k; ++i) {
      const double target = reference::target_of(labels, b, i) * (1.0 - smoothing) +
                            static_cast<double>(smoothing) / static_cast<double>(k);
      const double log_p = row[i] - largest - std::log(total);
      sums.loss -= weight * target * log_p;
      if (!dlogits.empty()) {
        dlogits[b * k + i] = static_cast<float>(scale.factor * weight * (std::exp(log_p) - target));
      }
      better += row[i] > row[label] || (row[i] == row[label] && i < label) ? 1 : 0;
    }
    sums.correct += better == 0 ? 1 : 0;
    sums.correct_top5 += better < 5 ? 1 : 0;
  }
  sums.examples += batch;
}

inline void ReferenceBackend::sigmoid_cross_entropy(const kernels::Extent& e, Index batch, View logits,
                                                    const kernels::Labels& labels, View targets, float smoothing,
                                                    const kernels::LossScale& scale, MutableView dlogits,
                                                    kernels::LossSums& sums) {
  const auto size = static_cast<std::size_t>(e.size());
  const auto k = static_cast<double>(size);
  for (std::size_t b = 0; b < static_cast<std::size_t>(batch); ++b) {
    const double weight = reference::weight_of(scale, b);
    Index better = 0,
          wrong = 0;  // classes that come before the label, outputs on the other side of ½ than their target
    for (std::size_t i = 0; i < size; ++i) {
      const double z = logits[b * size + i];
      const double given = labels.empty() ? targets[b * size + i] : reference::target_of(labels, b, size == 1 ? 1 : i);
      const double target = given * (1.0 - smoothing) + smoothing / 2.0;
      sums.loss += weight * (std::max(z, 0.0) - z * target + std::log1p(std::exp(-std::abs(z)))) / k;
      if (!dlogits.empty()) {
        dlogits[b * size + i] = static_cast<float>(scale.factor * weight * (reference::logistic(z) - target) / k);
      }
      const bool hits = given > 0.5 ? z > 0 : z <= 0;
      wrong += hits ? 0 : 1;
      if (labels.empty() || size == 1) continue;
      const auto label = static_cast<std::size_t>(labels.first[b]);
      const double of_label = logits[b * size + label];
      better += z < of_label || (z == of_label && i >= label) ? 0 : 1;  // a NaN comes before all
    }
    if (labels.empty() || size == 1) {
      sums.correct += wrong == 0 ? 1 : 0;
    } else {
      sums.correct += better == 0 ? 1 : 0;
      sums.correct_top5 += better < 5 ? 1 : 0;
    }
  }
  sums.examples += batch;
}

inline void ReferenceBackend::multiclass_hinge(Index classes, Index batch, View scores,
                                               std::span<const std::int32_t> labels, const kernels::LossScale& scale,
                                               MutableView dscores, kernels::LossSums& sums) {
  const auto k = static_cast<std::size_t>(classes);
  for (std::size_t b = 0; b < static_cast<std::size_t>(batch); ++b) {
    const View row = scores.subspan(b * k, k);
    const auto label = static_cast<std::size_t>(labels[b]);
    const double weight = reference::weight_of(scale, b);
    std::size_t other = k;
    Index better = 0;
    for (std::size_t i = 0; i < k; ++i) {
      if (i != label && (other == k || row[i] > row[other])) other = i;
      better += row[i] > row[label] || (row[i] == row[label] && i < label) ? 1 : 0;
    }
    const double margin = other == k ? 0 : 1.0 + row[other] - row[label];
    sums.loss += weight * std::max(0.0, margin);
    sums.correct += better == 0 ? 1 : 0;
    sums.correct_top5 += better < 5 ? 1 : 0;
    if (dscores.empty()) continue;
    std::fill_n(dscores.begin() + static_cast<std::ptrdiff_t>(b * k), k, 0.0F);
    if (margin <= 0) continue;
    dscores[b * k + other] = static_cast<float>(scale.factor * weight);
    dscores[b * k + label] = static_cast<float>(-scale.factor * weight);
  }
  sums.examples += batch;
}

inline void ReferenceBackend::error_loss(const kernels::ErrorSpec& spec, Index batch, View outputs, View targets,
                                         const kernels::LossScale& scale, MutableView doutputs,
                                         kernels::LossSums& sums) {
  const auto size = static_cast<std::size_t>(spec.extent.size());
  const auto k = static_cast<double>(size);
  const double delta = spec.delta;
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch) * size; ++i) {
    const double t = targets[i], error = outputs[i] - t, far = std::abs(error), sign = (error > 0) - (error < 0);
    const double weight = reference::weight_of(scale, i / size);
    double loss = error * error, slope = 2 * error;
    if (spec.loss == kernels::ErrorLoss::absolute) loss = far, slope = sign;
    if (spec.loss == kernels::ErrorLoss::huber) {
      loss = far <= delta ? error * error / 2 : delta * (far - delta / 2);
      slope = far <= delta ? error : delta * sign;
    }
    sums.loss += weight * loss / k;
    sums.squared_error += error * error;
    sums.absolute_error += far;
    sums.target_sum += t;
    sums.target_squared_sum += t * t;
    if (!doutputs.empty()) doutputs[i] = static_cast<float>(scale.factor * weight * slope / k);
  }
  sums.examples += batch;
  sums.values += batch * spec.extent.size();
}

}  // namespace unisono::nn
