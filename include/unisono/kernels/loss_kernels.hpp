#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/exact_sum.hpp"

namespace unisono::kernels {

/// Sums over examples, to which the loss kernels add.
struct LossSums {
  double loss = 0;  ///< Σ of the examples' losses, unscaled
  std::int64_t examples = 0;
  std::int64_t correct = 0;       ///< classification: the largest logit is the label's (the first of equals)
  std::int64_t correct_top5 = 0;  ///< the label is among the five largest outputs
  double squared_error = 0;       ///< regression: Σ (y − t)², over outputs too
  double absolute_error = 0;
  double target_sum = 0;  ///< Σ t and Σ t², over outputs too, for R²
  double target_squared_sum = 0;
  std::int64_t values = 0;  ///< the number of outputs in the last four sums
  /// Two classes: the examples' scores, by their class, for the area under the ROC curve. Only evaluations collect
  /// them.
  std::vector<float> negative_scores = {}, positive_scores = {};

  /// What `settle` has moved here from the floating-point sums above, in their order; empty: nothing.
  std::vector<ExactSquares> settled = {};

  LossSums& operator+=(const LossSums& more);
  /// Moves the floating-point sums so far to exact ones, whose totals do not depend on the order of the additions.
  void settle();
  /// Moves them back. Where sums are settled after each batch, the result depends on the batches alone.
  void unsettle();
};

/// What losses and their gradients are multiplied with.
struct LossScale {
  LossScale(float factor_, View weights_ = {}) : factor(factor_), weights(weights_) {}  // from a number, too

  float factor;  ///< of gradients
  View weights;  ///< [batch] of the examples' losses and of their gradients, plain memory; empty: all are 1
};

/// Losses of a batch. With the examples' weights w, they add Σ w · loss to `sums`, and the other figures unweighted;
/// they set dlogits = scale · ∂(Σ w · loss)/∂logits where it is wanted (not empty). Logits, scores and outputs are
/// activations; labels and targets are plain memory.
class LossKernels {
 public:
  virtual ~LossKernels() = default;

  /// \param logits activations of extent {K}. \param labels [batch], in [0, K). \param smoothing share of the target
  /// spread evenly
  virtual void softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                     float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) = 0;
  /// max(0, 1 + the largest of the other classes' scores − the label's): Crammer & Singer, JMLR 2001. Of equal scores,
  /// the first gets the gradient; where the loss is 0, the gradient is 0. Arguments and hits as above.
  virtual void multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                                const LossScale& scale, MutableView dscores, LossSums& sums) = 0;
  /// Independent classes; the loss of an example is the mean over K. A hit is, with labels, an example whose largest
  /// logit is the label's; with targets, an example each of whose logits is above 0 exactly where its target is above
  /// ½.
  /// \param labels [batch] the class whose target is 1; with one logit (K = 1), its target, 0 or 1; or empty
  /// \param targets [batch, K] row-major, in [0, 1]; or empty
  virtual void sigmoid_cross_entropy(const Extent& extent, Index batch, View logits,
                                     std::span<const std::int32_t> labels, View targets, float smoothing,
                                     const LossScale& scale, MutableView dlogits, LossSums& sums) = 0;
  /// The loss of an example is the mean over its outputs of the loss of y − t. \param targets [batch, C, H, W]
  /// row-major
  virtual void error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                          MutableView doutputs, LossSums& sums) = 0;

  /// Completes `sums`: adds what a device has accumulated for them in its own memory. Waits for the device.
  virtual void collect(LossSums& /*sums*/) {}
};

}  // namespace unisono::kernels
