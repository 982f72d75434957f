#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::kernels {

/// Whether a gradient replaces what its buffer holds or is added to it.
enum class Write { overwrite, add };

/// What a dropout mask depends on, in addition to the example and the element.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t layer = 0;
  float rate = 0;   ///< probability that an element is zeroed; the others are scaled by 1/(1 − rate)
  Index first = 0;  ///< the number of the first element, where those before it are on other ranks
};

/// What batch normalisation multiplies each channel by, and adds. [C] each
struct NormTerms {
  View mean, inverse_deviation, gamma, beta;
};

/// Forward and backward passes of layers, on batches of activations (see Activations). Parameters are views into θ,
/// ordered inside a block as the `…_axes` functions of Activations say. A name that ends in `_backward` takes gradients
/// with respect to outputs (`dy`) and gives those with respect to inputs (`dx`) or parameters (`dw`, `db`). Unless said
/// otherwise outputs are overwritten, and dx may not alias dy. A kernel that not every device has is an interface of
/// its own: see compute_device.hpp.
class LayerKernels {
 public:
  virtual ~LayerKernels() = default;

  // Dense and convolution
  // ----------------------------------------------------------------------------------------------

  /// y = activation(x Wᵀ + b). 2·batch·in·units flops. \param b empty where the layer has no bias
  virtual void dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) = 0;
  /// dy ← dy ⊙ activation'(y), in place; then, where wanted (not empty), dx = dy W, dw (+)= dyᵀ x, db (+)= Σ dy.
  /// \param y the output of dense_forward. 4·batch·in·units flops.
  virtual void dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                              MutableView dx, MutableView dw, MutableView db, Write write) = 0;

  /// y = activation(x ∗ W + b), a cross-correlation as everywhere in this field.
  virtual void convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) = 0;
  /// dy ← dy ⊙ activation'(y), in place; then, where wanted (not empty), dx, dw (+)= and db (+)= the gradients of
  /// convolution_forward. \param y the output of convolution_forward
  virtual void convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                    MutableView dx, MutableView dw, MutableView db, Write write) = 0;

  // Pooling
  // ------------------------------------------------------------------------------------------------------------

  /// y = the maximum or average of each window of x. Padding never wins a maximum and does not count in an average.
  virtual void pool_forward(const PoolSpec& spec, Index batch, View x, MutableView y) = 0;
  /// dx = the gradient of pool_forward. A maximum's gradient goes to the first of equal inputs (in row-major order of
  /// the window). An average reads neither x nor y: both may be empty.
  virtual void pool_backward(const PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) = 0;
  /// y[c] = mean of x over H and W.
  virtual void global_average_pool_forward(const Extent& extent, Index batch, View x, MutableView y) = 0;
  /// dx = the gradient of global_average_pool_forward.
  virtual void global_average_pool_backward(const Extent& extent, Index batch, View dy, MutableView dx) = 0;

  // Normalisation
  // --------------------------------------------------------------------------------------------------------

  /// sums[c] = Σ x, sums[C + c] = Σ x², over the batch, H and W, and sums[2C] = the number of values per channel; in
  /// double, so that they may be added up over ranks. All are 0 for no examples. \param sums [2C + 1]
  virtual void batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) = 0;
  /// mean = Σx / n, inverse_deviation = 1 / √(Σx²/n − mean² + ε), and running values follow them:
  ///     running ← (1 − momentum) running + momentum · batch,    the variance unbiased (n − 1; of one value 0).
  /// Nothing changes where n = sums[2C] is 0. Either the running values, or mean and inverse_deviation, may be empty,
  /// and are then not computed.
  /// \param sums over all examples that are normalised together, those of other ranks included
  virtual void batch_norm_moments(const NormSpec& spec, std::span<const double> sums, double momentum,
                                  MutableView running_mean, MutableView running_variance, MutableView mean,
                                  MutableView inverse_deviation) = 0;
  /// mean and inverse_deviation as batch_norm_moments computes them, but from the running values.
  virtual void batch_norm_running_moments(const NormSpec& spec, View running_mean, View running_variance,
                                          MutableView mean, MutableView inverse_deviation) = 0;
  /// y = activation(γ (x − mean) inverse_deviation + β [+ residual]), with activation none or relu.
  /// \param residual of x's shape, or empty
  virtual void batch_norm_forward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View residual,
                                  MutableView y) = 0;
  /// sums[c] = Σ d, sums[C + c] = Σ d x̂ with d = dy ⊙ activation'(y) and x̂ = (x − mean) inverse_deviation,
  /// sums[2C] = values of a channel. All are 0 for no examples. Where the mask comes from y, dy ← d.
  /// \param y may be empty unless the mask comes from it \param sums [2C + 1]
  virtual void batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View y,
                                        MutableView dy, std::span<double> sums) = 0;
  /// dγ (+)= Σ dy x̂, dβ (+)= Σ dy, of this rank's own sums.
  virtual void batch_norm_parameter_gradients(const NormSpec& spec, std::span<const double> sums, MutableView dgamma,
                                              MutableView dbeta, Write write) = 0;
  /// dx = γ inverse_deviation (d − (Σ d + x̂ Σ d x̂) / n), n = sums[2C], with d as above; `sums` over all that was
  /// normalised together, other ranks included. With n = 0 the statistics were constants: dx = γ inverse_deviation d.
  /// \param dy as batch_norm_backward_sums left it \param dx may be dy
  virtual void batch_norm_backward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View dy,
                                   std::span<const double> sums, MutableView dx) = 0;

  /// y = γ x̂ + β, x̂ over each example's own values. γ and β have one value for each element of an example. Where
  /// `spec.of_pixels`, over each pixel's own channels, with one value for each channel.
  virtual void layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) = 0;
  /// The gradients of layer_norm_forward: dx, and dγ with dβ, where they are wanted (not empty).
  virtual void layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                   MutableView dgamma, MutableView dbeta, Write write) = 0;

  // Element by element
  // -------------------------------------------------------------------------------------------------

  /// y = activation(x). y may alias x. Activation::none copies.
  virtual void activation_forward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                  MutableView y) = 0;
  /// dx = dy ⊙ activation'(x). dx may alias dy. Activations with reads_input() use only x, all others only y; the one
  /// that is not used may be empty.
  virtual void activation_backward(const ActivationSpec& activation, const Extent& extent, Index batch, View x, View y,
                                   View dy, MutableView dx) = 0;
  /// y = mask ⊙ x / (1 − rate); the mask is a function of the key, the example and the canonical element. The backward
  /// pass is the same function, on gradients. y may alias x. \param examples [batch] their indices in the training set
  virtual void dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                       MutableView y) = 0;
  /// y = x with each channel multiplied by a factor of its own. \param factors activations of extent {C}, one for each
  /// example and channel
  virtual void channel_gate_forward(const Extent& extent, Index batch, View x, View factors, MutableView y) = 0;
  /// The gradients of channel_gate_forward, where they are wanted (not empty). dx may alias dy where dfactors is empty.
  virtual void channel_gate_backward(const Extent& extent, Index batch, View x, View factors, View dy, MutableView dx,
                                     MutableView dfactors) = 0;
  /// y += x
  virtual void add(const Extent& extent, Index batch, View x, MutableView y) = 0;
};

/// How a device stores activations and parameters.
///
/// Activations of a batch live in buffers of `activation_size(extent, batch)` floats. Their layout differs between
/// devices: only the device's kernels read or write them.
class Activations {
 public:
  virtual ~Activations() = default;

  /// Floats of a batch of activations, padding included.
  virtual Index activation_size(const Extent& extent, Index batch) const = 0;
  /// Stored order of dense weights, canonical [O, C, H, W]; see Block::axes.
  virtual std::vector<int> dense_weight_axes() const = 0;
  /// Stored order of convolution weights, canonical [O, I / groups, KH, KW].
  virtual std::vector<int> convolution_weight_axes() const = 0;
  /// Stored order of parameters with one value for each element of an example, canonical [C, H, W] (layer norm).
  virtual std::vector<int> feature_axes() const = 0;

  /// Begins a pass: called before the first kernel of a forward pass, with the part of θ that the weights of this pass
  /// and of its backward pass are views into. These parameters must not change until the backward pass has ended.
  virtual void begin_pass(View /*parameters*/) {}
  /// Says that no parameter changes from now on: what kernels make of weights may be kept from pass to pass.
  virtual void fix_parameters() {}
  /// x = values. \param values [batch, C, H, W] row-major, in plain memory
  virtual void load(const Extent& extent, Index batch, View values, MutableView x) = 0;
  /// values = x. Waits for the device. \param values [batch, C, H, W] row-major, in plain memory
  virtual void store(const Extent& extent, Index batch, View x, MutableView values) = 0;
  /// Keeps a copy of a data set's features on the device, which then computes a model's inputs from it. Returns the
  /// same copy for the same rows; null where it keeps none. \pre the rows outlive this object
  virtual KeptFeatures* keep(const StoredFeatures& /*features*/) { return nullptr; }
  /// Bytes of all features that `keep` has copied to the device.
  virtual std::size_t kept_bytes() const { return 0; }
};

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
  /// The number of outputs in squared_error, absolute_error, target_sum and target_squared_sum.
  std::int64_t values = 0;
  std::int64_t bytes = 0;  ///< language models: bytes of the texts of the tokens that were predicted

  /// What `settle` has moved here from the floating-point sums, in their order; empty: nothing.
  std::vector<ExactSquares> settled = {};

  LossSums& operator+=(const LossSums& more);
  /// Moves the floating-point sums so far to exact ones, whose totals do not depend on the order of the additions.
  void settle();
  /// Moves the exact sums back to the floating-point ones. Where sums are settled after each batch, the result depends
  /// on the batches alone.
  void unsettle();
};

/// What losses and their gradients are multiplied with.
struct LossScale {
  LossScale(float factor_, View weights_ = {}) : factor(factor_), weights(weights_) {}  // from a number, too

  float factor;  ///< factor of gradients
  View weights;  ///< [batch] weights of the examples' losses and of their gradients, plain memory; empty: all are 1
};

/// The labels of a batch, in plain memory. Where two examples were mixed, there is a second label, and the target is
/// 1 − share of the first and share of the second.
struct Labels {
  Labels() = default;
  template <std::convertible_to<std::span<const std::int32_t>> Values>
  Labels(const Values& labels) : first(labels) {}  // from a vector, too
  Labels(std::span<const std::int32_t> labels, std::span<const std::int32_t> others, View other_shares)
      : first(labels), second(others), shares(other_shares) {}

  bool empty() const { return first.empty(); }
  bool mixed() const { return !second.empty(); }

  std::span<const std::int32_t> first;   ///< [batch]
  std::span<const std::int32_t> second;  ///< [batch], or empty
  View shares;                           ///< [batch] of the second ones, or empty
};

/// Losses of a batch. With the examples' weights w, the functions add Σ w · loss to `sums`, and the other figures
/// unweighted; they set dlogits = scale · ∂(Σ w · loss)/∂logits where it is wanted (not empty). Logits, scores and
/// outputs are activations; labels and targets are plain memory.
class LossKernels {
 public:
  virtual ~LossKernels() = default;

  /// Cross-entropy of a softmax over the classes; a hit is an example whose largest logit is the (first) label's.
  /// \param logits activations of extent {K}. \param labels [batch], in [0, K). \param smoothing share of the target
  /// spread evenly
  virtual void softmax_cross_entropy(Index classes, Index batch, View logits, const Labels& labels, float smoothing,
                                     const LossScale& scale, MutableView dlogits, LossSums& sums) = 0;
  /// max(0, 1 + the largest of the other classes' scores − the label's): Crammer & Singer, JMLR 2001. Of equal scores,
  /// the first gets the gradient; where the loss is 0, the gradient is 0. Arguments and hits as in
  /// softmax_cross_entropy.
  virtual void multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                                const LossScale& scale, MutableView dscores, LossSums& sums) = 0;
  /// Cross-entropy of a sigmoid for each of K independent classes; the loss of an example is the mean over K. A hit is,
  /// with labels, an example whose largest logit is the (first) label's; with targets, an example each of whose logits
  /// is above 0 exactly where its target is above ½. \param labels [batch] the class whose target is 1; with one logit
  /// (K = 1), its target, 0 or 1; or empty \param targets [batch, K] row-major, in [0, 1]; or empty
  virtual void sigmoid_cross_entropy(const Extent& extent, Index batch, View logits, const Labels& labels, View targets,
                                     float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) = 0;
  /// The loss of an example is the mean over its outputs of the loss of y − t. \param targets [batch, C, H, W]
  /// row-major
  virtual void error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                          MutableView doutputs, LossSums& sums) = 0;

  /// Completes `sums`: adds what a device has accumulated for them in its own memory. Waits for the device.
  virtual void collect(LossSums& /*sums*/) {}
};

}  // namespace unisono::kernels
