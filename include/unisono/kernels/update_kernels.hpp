#pragma once

#include <span>

#include "unisono/kernels/compute_device.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::kernels {

// The scalars of the update rules, for one step.

/// The scalars of an update by SGD.
struct SgdStep {
  float rate = 0, momentum = 0, decay = 0;  ///< decay: λ of λθ added to the gradient, in ranges that decay
  bool nesterov = false;
};

/// The scalars of an update by Adagrad.
struct AdagradStep {
  float rate = 0, decay = 0, epsilon = 0;
};

/// The scalars of an update by RMSprop.
struct RmspropStep {
  float rate = 0, decay = 0, smoothing = 0, epsilon = 0;
};

/// The scalars of an update by Adam, AdamW or LAMB.
struct AdamStep {
  float rate = 0, decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;
  float correction1 = 1, correction2 = 1;  ///< 1 / (1 − βᵗ)
  bool decoupled = false;                  ///< AdamW: λθ is added to the direction, not to the gradient
};

/// The scalars of an update by LARS.
struct LarsStep {
  float rate = 0, momentum = 0, decay = 0;
  double trust = 0;
};

/// Floats [first, last) of θ that an update rule treats alike; both are multiples of 16.
struct UpdateRange {
  Index first = 0, last = 0;
  bool decays = false;   ///< whether weight decay applies to the range
  bool adapted = false;  ///< whether the range has a rate of its own (LARS, LAMB)
  bool operator==(const UpdateRange&) const = default;
};

/// Vector algebra on θ, g and optimizer state, in the device's memory; each function makes one pass over its vectors.
/// Sums are made in double, in an order that depends only on the number of terms; on the CPU, sums of squares are
/// exact, and rounded as ExactSquares says.
class VectorKernels : public ComputeDevice {
 public:
  /// x = 0
  virtual void clear(MutableView x) = 0;
  /// y ← a x + b y; with b = 0 it does not matter what y held. y may be x.
  virtual void axpby(float a, View x, float b, MutableView y) = 0;
  /// Σ x y. Waits for the device. x may be y.
  virtual double dot(View x, View y) = 0;
  /// Σ x². Waits for the device.
  virtual double squared_norm(View x) = 0;
  /// norms[i] = Σ x² over ranges[i]. \param norms in the device's memory
  virtual void squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) = 0;
  /// sums[i] += Σ x² over ranges[i], as this rank's share of a sum over ranks.
  /// \param exactly false: computed in doubles, see ExactSquares::add_sum
  /// \throws ConfigError on GPUs, which do not support a sharded θ yet
  virtual void sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums);
};

/// The number by which a gradient is multiplied before an update: `factor`, further reduced where the norm of the
/// result would be above `clip_norm`, so that it equals clip_norm.
struct GradientScale {
  float factor = 1;
  double clip_norm = 0;  ///< 0: none
  std::span<const double> squared_norm =
      {};  ///< [1], in the device's memory: ‖g‖² before `factor`; read with clip_norm
};
/// The number of a GradientScale, where ‖g‖² is known: factor · min(1, clip_norm / (factor ‖g‖)).
float value_of(const GradientScale& scale, double squared_norm);

/// Squared norms, one for each range of a list, in the device's memory: `theta` of θ, `other` of g (LARS) or the
/// direction (LAMB).
struct RangeNorms {
  std::span<const double> theta, other;
};

/// All kernels that an optimizer needs: update rules, which change only the given ranges of θ, and vector algebra.
/// Formulas and papers are at the top of the optimizers' files in src/optim. A rule that not every device has is an
/// interface of its own: see compute_device.hpp.
class UpdateKernels : public VectorKernels {
 public:
  /// An update by SGD. `velocity` empty: without momentum.
  virtual void sgd_update(const SgdStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                          MutableView theta, MutableView velocity) = 0;
  /// An update by Adagrad.
  virtual void adagrad_update(const AdagradStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              View g, MutableView theta, MutableView accumulator) = 0;
  /// An update by RMSprop.
  virtual void rmsprop_update(const RmspropStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              View g, MutableView theta, MutableView mean_square) = 0;
  /// An update by Adam or AdamW.
  virtual void adam_update(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                           View g, MutableView theta, MutableView first, MutableView second) = 0;
  /// An update by LARS: each range has its own learning rate. \param norms of θ and g
  virtual void lars_update(const LarsStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                           const RangeNorms& norms, View g, MutableView theta, MutableView velocity) = 0;
  /// The first part of an update by LAMB: directions[i] = Σ (Adam's direction, decay included)² over ranges[i]; the
  /// moments are updated, θ is not.
  virtual void lamb_moments(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                            View g, View theta, MutableView first, MutableView second,
                            std::span<double> directions) = 0;
  /// sums[i] += Σ direction² over ranges[i], from the moments that lamb_moments left; `exactly` as in sum_squares.
  virtual void sum_lamb_directions(const AdamStep& step, std::span<const UpdateRange> ranges, View theta, View first,
                                   View second, bool exactly, std::span<ExactSquares> sums);
  /// The second part of an update by LAMB: θ ← θ − ratio · rate · direction, from the moments that lamb_moments left;
  /// ratio = ‖θ‖ / ‖direction‖ of the range, 1 where either is 0. \param norms of θ and the direction
  virtual void lamb_apply(const AdamStep& step, std::span<const UpdateRange> ranges, const RangeNorms& norms,
                          MutableView theta, View first, View second) = 0;
};

}  // namespace unisono::kernels
