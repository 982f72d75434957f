#pragma once

#include <functional>
#include <span>
#include <vector>

#include "unisono/optim/batch_method.hpp"

namespace unisono::optim {

/// A linear combination of the vectors of an LbfgsHistory: Σ s[i] s_i + y[i] y_i + g · gradient.
struct LbfgsDirection {
  std::vector<double> coefficients;  ///< [2 m + 1]: of s_0 … s_{m−1}, y_0 … y_{m−1}, g
  double slope = 0;                  ///< its product with g
  double square = 0;                 ///< its own
};

/// The last m pairs s = x_{k+1} − x_k, y = g_{k+1} − g_k, and all dot products of them and the gradient g: what the
/// vector-free two-loop recursion needs (Chen, Wang, Zhou, "Large-scale L-BFGS using MapReduce", NIPS 2014).
///
/// Pairs lie in a ring: a new one takes the place of the oldest by exchanging buffers, and nothing is copied.
class LbfgsHistory {
 public:
  /// A piece of the gradient, elements [first, last): a view of it, or of `room`, where it was written to.
  using GradientPiece = std::function<const float*(Index first, Index last, float* room)>;

  explicit LbfgsHistory(int pairs);

  /// Names of the vectors s0 …, y0 ….
  static std::vector<std::string> names(int pairs);

  /// Forgets all pairs. The gradient stays.
  void clear() { count_ = 0; }
  int pairs() const { return count_; }

  /// Takes a new gradient, and a pair where s·y is large enough; one reduction, each vector is read once.
  /// \param vectors [2 m] the memory of s_0 …, y_0 …
  /// \param s, y become the oldest pair's memory, if the pair is taken
  void update(BatchFunction& f, std::span<OptimizerState> vectors, Buffer& s, Buffer& y, const GradientPiece& gradient,
              double magnitude);
  /// Forgets all pairs, and takes a new gradient.
  void restart(BatchFunction& f, const GradientPiece& gradient);

  /// −H g by the two-loop recursion, on numbers alone.
  LbfgsDirection direction() const;
  /// −g
  LbfgsDirection steepest() const;
  /// d = the combination; each vector is read once.
  void combine(const LbfgsDirection& direction, std::span<const OptimizerState> vectors, const GradientPiece& gradient,
               MutableView d) const;

  void save(std::vector<double>& scalars) const;
  void restore(const double* scalars);

 private:
  std::size_t width() const { return static_cast<std::size_t>(2 * pairs_ + 1); }
  double& dot(std::size_t a, std::size_t b) { return dots_[a * width() + b]; }
  double dot(std::size_t a, std::size_t b) const { return dots_[a * width() + b]; }
  void set(std::size_t a, std::size_t b, double value) { dot(a, b) = dot(b, a) = value; }
  std::vector<std::size_t> active() const;
  std::size_t slot(int age) const;
  void finish(LbfgsDirection& direction) const;

  int pairs_, count_ = 0, next_ = 0;  ///< of at most pairs_; the place of the next pair
  std::vector<double> dots_;          ///< [2 m + 1, 2 m + 1], in the order of LbfgsDirection::coefficients
};

}  // namespace unisono::optim
