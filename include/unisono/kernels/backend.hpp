#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// Whether a gradient replaces what its buffer holds or is added to it.
enum class Write { overwrite, add };

/// Sums over the examples of a batch; what a loss kernel adds to.
struct LossSums {
  double loss = 0;  ///< Σ of the examples' losses, unscaled
  std::int64_t examples = 0;
  std::int64_t correct = 0;       ///< classification: the largest logit is the label's (the first of equals)
  std::int64_t correct_top5 = 0;  ///< … among the five largest
  double squared_error = 0;       ///< regression: Σ (y − t)², over outputs too
  double absolute_error = 0;
  double target_sum = 0;  ///< Σ t and Σ t², over outputs too, for R²
  double target_squared_sum = 0;
  std::int64_t values = 0;  ///< how many outputs these last four run over
  /// Two classes: the examples' scores, by their class, for the area under the ROC curve. Only evaluations collect
  /// them.
  std::vector<float> negative_scores = {}, positive_scores = {};

  LossSums& operator+=(const LossSums& more);
};

/// What a dropout mask depends on, beside the example and the element.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t layer = 0;
  float rate = 0;  ///< probability that an element is zeroed; the others are scaled by 1/(1 − rate)
};

/// The kernels of one device.
///
/// Activations of a batch live in buffers of `activation_size(extent, batch)` floats whose inner layout is the
/// backend's own affair: only the backend reads or writes them. Parameters are views into θ, ordered inside a block as
/// the `…_axes` functions say. A name that ends in `_backward` takes gradients with respect to outputs (`dy`) and gives
/// those with respect to inputs (`dx`) or parameters (`dw`, `db`). Unless said otherwise outputs are overwritten, and
/// dx may not alias dy. Results do not depend on the number of threads.
class Backend {
 public:
  virtual ~Backend() = default;

  /// "CPU, AVX-512, 2 threads": for logs, and for what must be equal where runs are compared bit for bit.
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  /// Fused multiply-add flops per second of this backend's cores, measured now (0.2 s).
  virtual double measure_peak_flops_per_second() = 0;
  /// Bytes per second of a triad over memory that no cache holds, measured now (0.2 s).
  virtual double measure_bandwidth_bytes_per_second() = 0;

  // Layouts
  // ------------------------------------------------------------------------------------------------------------

  /// Floats of a batch of activations, padding included.
  virtual Index activation_size(const Extent& extent, Index batch) const = 0;
  /// Floats of scratch memory that the backend itself has allocated so far.
  virtual Index scratch_size() const = 0;
  /// Stored order of canonical [O, C, H, W], see Block::axes.
  virtual std::vector<int> dense_weight_axes() const = 0;
  /// Stored order of canonical [O, I / groups, KH, KW].
  virtual std::vector<int> convolution_weight_axes() const = 0;
  /// Stored order of canonical [C, H, W]: parameters with one value an element of an activation.
  virtual std::vector<int> feature_axes() const = 0;

  /// x = values. \param values [batch, C, H, W] row-major
  virtual void load(const Extent& extent, Index batch, View values, MutableView x) = 0;
  /// values = x. \param values [batch, C, H, W] row-major
  virtual void store(const Extent& extent, Index batch, View x, MutableView values) = 0;

  // Dense and convolution
  // ----------------------------------------------------------------------------------------------

  /// y = activation(x Wᵀ + b). 2·batch·in·units flops. \param b empty where the layer has no bias
  virtual void dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) = 0;
  /// dy ← dy ⊙ activation'(y), in place; then, where wanted (not empty), dx = dy W, dw (+)= dyᵀ x, db (+)= Σ dy.
  /// \param y what forward gave. 4·batch·in·units flops.
  virtual void dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                              MutableView dx, MutableView dw, MutableView db, Write write) = 0;

  /// y = activation(x ∗ W + b), a cross-correlation as everywhere in this field.
  virtual void convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) = 0;
  /// As dense_backward.
  virtual void convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                                    MutableView dx, MutableView dw, MutableView db, Write write) = 0;

  // Pooling
  // ------------------------------------------------------------------------------------------------------------

  /// Padding never wins a maximum and does not count in an average.
  virtual void pool_forward(const PoolSpec& spec, Index batch, View x, MutableView y) = 0;
  /// The maximum's gradient goes to the first of equal inputs (in row-major order of the window). An average reads
  /// neither x nor y: both may be empty.
  virtual void pool_backward(const PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) = 0;
  /// y[c] = mean over H and W.
  virtual void global_average_pool_forward(const Extent& extent, Index batch, View x, MutableView y) = 0;
  virtual void global_average_pool_backward(const Extent& extent, Index batch, View dy, MutableView dx) = 0;

  // Normalisation
  // --------------------------------------------------------------------------------------------------------

  /// sums[c] = Σ x, sums[C + c] = Σ x², over the batch, H and W; doubles, for they may be added up over ranks.
  virtual void batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) = 0;
  /// y = activation(γ (x − mean) inverse_deviation + β [+ residual]); none or relu.
  /// \param residual of x's shape, or empty
  virtual void batch_norm_forward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                  View gamma, View beta, View residual, MutableView y) = 0;
  /// dy ← dy ⊙ activation'(y), in place (it is then the gradient of `residual`, too);
  /// sums[c] = Σ dy, sums[C + c] = Σ dy x̂ with x̂ = (x − mean) inverse_deviation.
  virtual void batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                        View y, MutableView dy, std::span<double> sums) = 0;
  /// dx = γ inverse_deviation (dy − (Σ dy + x̂ Σ dy x̂) / count); `sums` over all that was normalised together, `count`
  /// values a channel. With count = 0 the statistics were constants: dx = γ inverse_deviation dy.
  virtual void batch_norm_backward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                   View gamma, View dy, std::span<const double> sums, double count, MutableView dx) = 0;

  /// y = γ x̂ + β, x̂ over each example's own values. γ and β have one value an element.
  virtual void layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) = 0;
  /// dx where it is wanted (not empty).
  virtual void layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                   MutableView dgamma, MutableView dbeta, Write write) = 0;

  // Element by element
  // -------------------------------------------------------------------------------------------------

  /// y may alias x. Activation::none copies.
  virtual void activation_forward(Activation activation, const Extent& extent, Index batch, View x, MutableView y) = 0;
  /// dx = dy ⊙ activation'(x). dx may alias dy. GELU reads x alone, the others read y alone: the other one may be
  /// empty.
  virtual void activation_backward(Activation activation, const Extent& extent, Index batch, View x, View y, View dy,
                                   MutableView dx) = 0;
  /// y = mask ⊙ x / (1 − rate); the mask is a function of the key, the example and the canonical element. Its own
  /// backward pass. y may alias x. \param examples [batch] their indices in the training set
  virtual void dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                       MutableView y) = 0;
  /// y += x
  virtual void add(const Extent& extent, Index batch, View x, MutableView y) = 0;

  // Losses: they add to `sums`, and give dlogits = scale · ∂(Σ loss)/∂logits where it is wanted (not empty)
  // ------------------

  /// \param logits activations of extent {K}. \param labels [batch], in [0, K). \param smoothing share of the target
  /// spread evenly
  virtual void softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                     float smoothing, float scale, MutableView dlogits, LossSums& sums) = 0;
  /// Independent classes. \param targets [batch, K] row-major, in [0, 1]; the loss of an example is the mean over K.
  virtual void sigmoid_cross_entropy(const Extent& extent, Index batch, View logits, View targets, float smoothing,
                                     float scale, MutableView dlogits, LossSums& sums) = 0;
  /// The loss of an example is the mean over its outputs of (y − t)². \param targets [batch, C, H, W] row-major
  virtual void mean_squared_error(const Extent& extent, Index batch, View outputs, View targets, float scale,
                                  MutableView doutputs, LossSums& sums) = 0;

  // Vector algebra on θ, g and optimizer state; one pass over memory each
  // -----------------------------------------------------

  /// Σ x², in double, in an order that depends on x.size() alone.
  virtual double squared_norm(View x) = 0;
  /// y ← a x + b y; with b = 0 it does not matter what y held.
  virtual void axpby(float a, View x, float b, MutableView y) = 0;

  // Update rules: see optim for formulas and papers. `g` is read as gradient_scale · g.
  // ------------------------------------------

  /// `velocity` empty: without momentum.
  virtual void sgd_update(const SgdStep& step, View g, MutableView theta, MutableView velocity) = 0;
  virtual void adagrad_update(const AdagradStep& step, View g, MutableView theta, MutableView accumulator) = 0;
  virtual void rmsprop_update(const RmspropStep& step, View g, MutableView theta, MutableView mean_square) = 0;
  virtual void adam_update(const AdamStep& step, View g, MutableView theta, MutableView first, MutableView second) = 0;
  /// Σ (Adam's direction, decay included)², for LAMB's trust ratio; the moments are updated, θ is not.
  virtual double lamb_moments(const AdamStep& step, View g, View theta, MutableView first, MutableView second) = 0;
  /// θ ← θ − ratio · rate · direction, from the moments that lamb_moments left.
  virtual void lamb_apply(const AdamStep& step, float ratio, MutableView theta, View first, View second) = 0;
};

/// The CPU's kernels.
/// \param threads at least 1
std::unique_ptr<Backend> make_cpu_backend(int threads);

/// What the CPU's kernels are compiled for, here: "AVX-512", "AVX2" or "portable". Others round otherwise.
/// \throws ConfigError where the environment's UNISONO_MAX_ISA is none of these
std::string cpu_instruction_set();

}  // namespace unisono
