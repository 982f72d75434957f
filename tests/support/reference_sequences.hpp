#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/kernels/sequence_kernels.hpp"

// What layers of sequences compute, in double, from their definitions: rows of values, one after the other. Sums are
// added to what the results hold.

namespace unisono::reference {

using Values = std::vector<double>;

inline std::size_t unsigned_of(Index i) { return static_cast<std::size_t>(i); }

/// P[t, c] of sinusoids.
inline double sinusoid(Index t, Index c, Index units) {
  const double angle =
      static_cast<double>(t) / std::pow(10000.0, static_cast<double>(c / 2 * 2) / static_cast<double>(units));
  return c % 2 == 0 ? std::sin(angle) : std::cos(angle);
}

/// Attention of one sequence: probabilities, and all that follows from them.
class Attention {
 public:
  /// \param x [T] rows of spec.in() \param example the sequence's index in the set
  Attention(const kernels::AttentionSpec& spec, std::span<const double> x, const kernels::DropoutKey& dropout = {},
            std::uint64_t example = 0)
      : spec_(spec), x_(x.begin(), x.end()), factors_(mask(spec, dropout, example)) {
    rotate(x_, 1);
    for (Index h = 0; h < spec.heads; ++h) attend(h);
  }

  /// y, [T] rows of spec.out()
  Values forward() const {
    Values y(unsigned_of(spec_.rows * spec_.out().size()));
    each([&](Index h, Index i, Index j, double p) {
      for (Index d = 0; d < spec_.width; ++d) y[out(i, h, d)] += p * factor(h, i, j) * x_[value(j, h, d)];
    });
    return y;
  }
  /// [T] rows of H
  const Values& log_sums() const { return log_sums_; }

  /// dx of dy.
  Values backward(std::span<const double> dy) const {
    Values dx(x_.size());
    const double scale = 1 / std::sqrt(static_cast<double>(spec_.width));
    Values dp(probabilities_.size()), sums(unsigned_of(spec_.heads * spec_.rows));
    each([&](Index h, Index i, Index j, double p) {
      double& gradient = dp[place(h, i, j)];
      for (Index d = 0; d < spec_.width; ++d) gradient += factor(h, i, j) * dy[out(i, h, d)] * x_[value(j, h, d)];
      sums[unsigned_of(h * spec_.rows + i)] += p * gradient;
      for (Index d = 0; d < spec_.width; ++d) dx[value(j, h, d)] += p * factor(h, i, j) * dy[out(i, h, d)];
    });
    each([&](Index h, Index i, Index j, double p) {
      const double ds = p * (dp[place(h, i, j)] - sums[unsigned_of(h * spec_.rows + i)]) * scale;
      for (Index d = 0; d < spec_.width; ++d) {
        dx[query(i, h, d)] += ds * x_[key(j, h, d)];
        dx[key(j, h, d)] += ds * x_[query(i, h, d)];
      }
    });
    rotate(dx, -1);
    return dx;
  }

 private:
  std::size_t place(Index h, Index i, Index j) const { return unsigned_of((h * spec_.rows + i) * spec_.rows + j); }
  std::size_t out(Index i, Index h, Index d) const { return unsigned_of((i * spec_.heads + h) * spec_.width + d); }
  std::size_t at(Index row, Index head, Index d) const {
    return unsigned_of(row * spec_.in().size() + head * spec_.width + d);
  }
  Index group(Index h) const { return h * spec_.key_heads / spec_.heads; }
  std::size_t query(Index i, Index h, Index d) const { return at(i, h, d); }
  std::size_t key(Index j, Index h, Index d) const { return at(j, spec_.heads + group(h), d); }
  std::size_t value(Index j, Index h, Index d) const { return at(j, spec_.heads + spec_.key_heads + group(h), d); }
  double factor(Index h, Index i, Index j) const { return factors_.empty() ? 1 : factors_[place(h, i, j)]; }

  /// Of each element 0 or 1 / (1 − rate); empty where there is no dropout.
  static Values mask(const kernels::AttentionSpec& spec, const kernels::DropoutKey& key, std::uint64_t example) {
    if (key.rate == 0) return {};
    Values factors(unsigned_of(spec.heads * spec.rows * spec.rows));
    RandomStream random(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout, example, key.epoch);
    random.skip(static_cast<std::uint64_t>(key.first));
    for (double& one : factors) one = random.uniform() < key.rate ? 0 : 1 / (1 - static_cast<double>(key.rate));
    return factors;
  }

  /// Turns queries and keys by their rows' angles.
  void rotate(Values& x, double direction) const {
    if (spec_.rotary == 0) return;
    const Index half = spec_.width / 2;
    for (Index t = 0; t < spec_.rows; ++t)
      for (Index head = 0; head < spec_.heads + spec_.key_heads; ++head)
        for (Index i = 0; i < half; ++i) {
          const double exponent = -2 * static_cast<double>(i) / static_cast<double>(spec_.width);
          const double angle = direction * static_cast<double>(t) * std::pow(spec_.rotary, exponent);
          double &first = x[at(t, head, i)], &second = x[at(t, head, i + half)];
          const double turned = first * std::cos(angle) - second * std::sin(angle);
          second = second * std::cos(angle) + first * std::sin(angle);
          first = turned;
        }
  }

  void attend(Index h) {
    probabilities_.resize(unsigned_of(spec_.heads * spec_.rows * spec_.rows));
    log_sums_.resize(unsigned_of(spec_.heads * spec_.rows));
    for (Index i = 0; i < spec_.rows; ++i) {
      double sum = 0;
      for (Index j = 0; j < seen(i); ++j) {
        double score = 0;
        for (Index d = 0; d < spec_.width; ++d) score += x_[query(i, h, d)] * x_[key(j, h, d)];
        sum += probabilities_[place(h, i, j)] = std::exp(score / std::sqrt(static_cast<double>(spec_.width)));
      }
      for (Index j = 0; j < seen(i); ++j) probabilities_[place(h, i, j)] /= sum;
      log_sums_[unsigned_of(i * spec_.heads + h)] = std::log(sum);
    }
  }
  Index seen(Index i) const { return spec_.causal ? i + 1 : spec_.rows; }

  template <typename Visit>
  void each(Visit visit) const {
    for (Index h = 0; h < spec_.heads; ++h)
      for (Index i = 0; i < spec_.rows; ++i)
        for (Index j = 0; j < seen(i); ++j) visit(h, i, j, probabilities_[place(h, i, j)]);
  }

  kernels::AttentionSpec spec_;
  Values x_;  ///< turned
  Values factors_, probabilities_, log_sums_;
};

/// Logits and losses of a head, row by row.
struct HeadResult {
  double loss = 0;
  std::int64_t rows = 0, correct = 0, correct_top5 = 0;
  Values dx, dw;  ///< of the sum of the losses, of the tokens that w has
  Values mass;    ///< [V], Σ over the rows of probability and target
};
/// \param w of the tokens that this rank has \param group adds up the logits of all ranks, which are 0 on all but one
inline HeadResult head_loss(const kernels::HeadSpec& spec, std::span<const double> x, std::span<const double> w,
                            std::span<const std::int32_t> labels, TensorGroup* group = nullptr) {
  const std::size_t units = unsigned_of(spec.units), classes = unsigned_of(spec.vocabulary);
  const std::size_t first = unsigned_of(spec.token(spec.first)), end = first + unsigned_of(spec.held());
  HeadResult result{.dx = Values(x.size()), .dw = Values(w.size()), .mass = Values(classes)};
  Values all(labels.size() * classes);
  for (std::size_t row = 0; row < labels.size(); ++row)
    for (std::size_t v = first; v < end; ++v)
      for (std::size_t c = 0; c < units; ++c) all[row * classes + v] += w[(v - first) * units + c] * x[row * units + c];
  if (group != nullptr) group->sum(all);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (labels[row] < 0) continue;
    const auto label = static_cast<std::size_t>(labels[row]);
    const double* const logits = all.data() + row * classes;
    double sum = 0;
    std::int64_t before = 0;
    for (std::size_t v = 0; v < classes; ++v) sum += std::exp(logits[v]);
    for (std::size_t v = 0; v < classes; ++v) {
      before += logits[v] > logits[label] || (logits[v] == logits[label] && v < label) ? 1 : 0;
      const double even = static_cast<double>(spec.smoothing) / static_cast<double>(classes);
      const double target = even + (v == label ? 1 - static_cast<double>(spec.smoothing) : 0);
      result.loss -= target * (logits[v] - std::log(sum));
      const double dz = std::exp(logits[v]) / sum - target;
      result.mass[v] += dz + 2 * target;
      for (std::size_t c = 0; c < units && v >= first && v < end; ++c) {
        result.dx[row * units + c] += dz * w[(v - first) * units + c];
        result.dw[(v - first) * units + c] += dz * x[row * units + c];
      }
    }
    ++result.rows;
    result.correct += before < 1 ? 1 : 0;
    result.correct_top5 += before < 5 ? 1 : 0;
  }
  return result;
}

/// y of rows of `gamma.size()` values.
inline Values rms_norm(std::span<const double> x, std::span<const double> gamma, double epsilon) {
  Values y(x.size());
  const std::size_t size = gamma.size();
  for (std::size_t first = 0; first < x.size(); first += size) {
    double squares = 0;
    for (std::size_t i = 0; i < size; ++i) squares += x[first + i] * x[first + i] / static_cast<double>(size);
    for (std::size_t i = 0; i < size; ++i) y[first + i] = gamma[i] * x[first + i] / std::sqrt(squares + epsilon);
  }
  return y;
}
/// dx of rms_norm; dγ is added to `dgamma`.
inline Values rms_norm_backward(std::span<const double> x, std::span<const double> gamma, double epsilon,
                                std::span<const double> dy, Values& dgamma) {
  Values dx(x.size());
  const std::size_t size = gamma.size();
  const auto n = static_cast<double>(size);
  for (std::size_t first = 0; first < x.size(); first += size) {
    double squares = 0, product = 0;
    for (std::size_t i = 0; i < size; ++i) squares += x[first + i] * x[first + i] / n;
    const double inverse = 1 / std::sqrt(squares + epsilon);
    for (std::size_t i = 0; i < size; ++i) product += gamma[i] * dy[first + i] * x[first + i] * inverse / n;
    for (std::size_t i = 0; i < size; ++i) {
      dx[first + i] = inverse * (gamma[i] * dy[first + i] - x[first + i] * inverse * product);
      dgamma[i] += dy[first + i] * x[first + i] * inverse;
    }
  }
  return dx;
}

/// The last row of the first `length` ones of x, or their mean. \param x [T, C]
inline Values sequence_pool(const kernels::SequencePoolSpec& spec, std::span<const double> x, Index length) {
  const auto units = static_cast<std::size_t>(spec.units), rows = static_cast<std::size_t>(length);
  Values y(units);
  const bool takes_last = spec.kind == kernels::SequencePool::last;
  for (std::size_t t = takes_last ? rows - 1 : 0; t < rows; ++t) {
    for (std::size_t c = 0; c < units; ++c) y[c] += x[t * units + c] / (takes_last ? 1.0 : static_cast<double>(rows));
  }
  return y;
}
inline Values sequence_pool_backward(const kernels::SequencePoolSpec& spec, std::span<const double> dy, Index length) {
  const auto units = static_cast<std::size_t>(spec.units), rows = static_cast<std::size_t>(length);
  Values dx(units * static_cast<std::size_t>(spec.rows));
  const bool takes_last = spec.kind == kernels::SequencePool::last;
  for (std::size_t t = takes_last ? rows - 1 : 0; t < rows; ++t) {
    for (std::size_t c = 0; c < units; ++c) dx[t * units + c] = dy[c] / (takes_last ? 1.0 : static_cast<double>(rows));
  }
  return dx;
}

inline double silu(double z) { return z / (1 + std::exp(-z)); }
/// y of rows of 2F values.
inline Values gate(std::span<const double> x, std::size_t units) {
  Values y(x.size() / 2);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t at = i / units * 2 * units + i % units;
    y[i] = silu(x[at]) * x[at + units];
  }
  return y;
}
inline Values gate_backward(std::span<const double> x, std::size_t units, std::span<const double> dy) {
  Values dx(x.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t at = i / units * 2 * units + i % units;
    const double z = x[at], s = 1 / (1 + std::exp(-z));
    dx[at] = dy[i] * x[at + units] * s * (1 + z * (1 - s));
    dx[at + units] = dy[i] * silu(z);
  }
  return dx;
}

}  // namespace unisono::reference
