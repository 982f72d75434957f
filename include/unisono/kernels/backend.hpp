#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "unisono/kernels/specs.hpp"
#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/device.hpp"
#include "unisono/tensor/exact_sum.hpp"
#include "unisono/tensor/features.hpp"

namespace unisono::kernels {

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

/// What losses and their gradients are multiplied with.
struct LossScale {
  LossScale(float factor_, View weights_ = {}) : factor(factor_), weights(weights_) {}  // a number alone will do

  float factor;  ///< of gradients
  View weights;  ///< [batch] of the examples' losses and of their gradients, plain memory; empty: all are 1
};

/// What a dropout mask depends on, beside the example and the element.
struct DropoutKey {
  std::uint64_t seed = 0;
  std::uint32_t epoch = 0;
  std::uint32_t layer = 0;
  float rate = 0;  ///< probability that an element is zeroed; the others are scaled by 1/(1 − rate)
};

/// What a whole gradient is multiplied with first: `factor`, and where its norm would then be above `clip_norm`, what
/// brings it down to that.
struct GradientScale {
  float factor = 1;
  double clip_norm = 0;  ///< 0: none
  std::span<const double> squared_norm =
      {};  ///< [1], in the backend's memory: ‖g‖² before `factor`; read with clip_norm
};
/// The number that a scale comes to, where ‖g‖² is known: factor · min(1, clip_norm / (factor ‖g‖)).
float value_of(const GradientScale& scale, double squared_norm);

/// The kernels of one device.
///
/// Parameters, activations and whatever else a kernel is given as a View or as doubles live in `memory()`, which on the
/// CPU is everybody's. Spans of integers, and values and targets that come from the data, are plain memory, which the
/// caller may change once `submit` has returned. A device may gather what it is asked for and work on it later, in
/// order: `memory().copy` waits for it. Kernels write nothing outside the views that they are given: the unused floats
/// between the blocks of θ and g stay as they are.
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

  // Memory and order
  // ----------------------------------------------------------------------------------------------------------

  /// Where θ, g, optimizer state and activations must live.
  virtual Allocator& memory() { return plain_allocator(); }
  /// Plain memory from which `load` is fastest.
  virtual Allocator& batch_memory() { return plain_allocator(); }
  /// What others must know of the device, to move what lies in its memory; null: the CPU.
  virtual Device* device() { return nullptr; }
  /// Starts all that was asked for, where that is gathered first; results do not depend on it.
  virtual void submit() {}
  /// Seconds that callers have waited so far for a device to do what it was asked for.
  virtual double waited_seconds() const { return 0; }
  /// Adds to `sums` what loss kernels were to add to them and a device has kept so far. Waits.
  virtual void collect(LossSums& /*sums*/) {}

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

  /// Before the first kernel of a forward pass: its products, and those of the backward pass, read parameters in here,
  /// which nobody changes until then.
  virtual void begin_pass(View /*parameters*/) {}
  /// x = values. \param values [batch, C, H, W] row-major
  virtual void load(const Extent& extent, Index batch, View values, MutableView x) = 0;
  /// Keeps a copy of a set's features, as `load` would be given them, and makes inputs of them itself; the same answer
  /// for the same rows. Null: it does not. \pre the rows stay as long as the backend
  virtual KeptFeatures* keep(const StoredFeatures& /*features*/) { return nullptr; }
  /// Bytes of all that it keeps.
  virtual std::size_t kept_bytes() const { return 0; }
  /// values = x. Waits. \param values [batch, C, H, W] row-major, in plain memory
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

  /// sums[c] = Σ x, sums[C + c] = Σ x², over the batch, H and W, and sums[2C] = how many values of a channel these are;
  /// doubles, for they may be added up over ranks. All are 0 for no examples. \param sums [2C + 1]
  virtual void batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) = 0;
  /// mean = Σx / n, inverse_deviation = 1 / √(Σx²/n − mean² + ε), and running values follow them:
  ///     running ← (1 − momentum) running + momentum · batch,    the variance unbiased (n − 1; of one value 0).
  /// Nothing changes where n = sums[2C] is 0. Both running values, or both others, may be empty: they are not wanted.
  /// \param sums of all that is normalised together
  virtual void batch_norm_moments(const NormSpec& spec, std::span<const double> sums, double momentum,
                                  MutableView running_mean, MutableView running_variance, MutableView mean,
                                  MutableView inverse_deviation) = 0;
  /// The same out of the running values.
  virtual void batch_norm_running_moments(const NormSpec& spec, View running_mean, View running_variance,
                                          MutableView mean, MutableView inverse_deviation) = 0;
  /// y = activation(γ (x − mean) inverse_deviation + β [+ residual]); none or relu.
  /// \param residual of x's shape, or empty
  virtual void batch_norm_forward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                  View gamma, View beta, View residual, MutableView y) = 0;
  /// dy ← dy ⊙ activation'(y), in place (it is then the gradient of `residual`, too);
  /// sums[c] = Σ dy, sums[C + c] = Σ dy x̂ with x̂ = (x − mean) inverse_deviation, sums[2C] = values of a channel. All
  /// are 0 for no examples. \param sums [2C + 1]
  virtual void batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                        View y, MutableView dy, std::span<double> sums) = 0;
  /// dγ (+)= Σ dy x̂, dβ (+)= Σ dy, of this rank's own sums.
  virtual void batch_norm_parameter_gradients(const NormSpec& spec, std::span<const double> sums, MutableView dgamma,
                                              MutableView dbeta, Write write) = 0;
  /// dx = γ inverse_deviation (dy − (Σ dy + x̂ Σ dy x̂) / n), n = sums[2C]; `sums` over all that was normalised
  /// together. With n = 0 the statistics were constants: dx = γ inverse_deviation dy.
  virtual void batch_norm_backward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                   View gamma, View dy, std::span<const double> sums, MutableView dx) = 0;

  /// y = γ x̂ + β, x̂ over each example's own values. γ and β have one value an element.
  virtual void layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) = 0;
  /// dx, and dγ with dβ, where they are wanted (not empty).
  virtual void layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                   MutableView dgamma, MutableView dbeta, Write write) = 0;

  // Element by element
  // -------------------------------------------------------------------------------------------------

  /// y may alias x. Activation::none copies.
  virtual void activation_forward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                  MutableView y) = 0;
  /// dx = dy ⊙ activation'(x). dx may alias dy. Those of reads_input() read x alone, the others read y alone: the
  /// other one may be empty.
  virtual void activation_backward(const ActivationSpec& activation, const Extent& extent, Index batch, View x, View y,
                                   View dy, MutableView dx) = 0;
  /// y = mask ⊙ x / (1 − rate); the mask is a function of the key, the example and the canonical element. Its own
  /// backward pass. y may alias x. \param examples [batch] their indices in the training set
  virtual void dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                       MutableView y) = 0;
  /// y += x
  virtual void add(const Extent& extent, Index batch, View x, MutableView y) = 0;

  // Losses: with the examples' weights w they add Σ w · loss to `sums`, whose other figures have no weights, and give
  // dlogits = scale · ∂(Σ w · loss)/∂logits where it is wanted (not empty)
  // ------------------

  /// \param logits activations of extent {K}. \param labels [batch], in [0, K). \param smoothing share of the target
  /// spread evenly
  virtual void softmax_cross_entropy(Index classes, Index batch, View logits, std::span<const std::int32_t> labels,
                                     float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) = 0;
  /// max(0, 1 + the largest of the other classes' scores − the label's): Crammer & Singer, JMLR 2001. Of equal scores
  /// the first bears the gradient; where the loss is 0 there is none. Arguments and hits as above.
  virtual void multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                                const LossScale& scale, MutableView dscores, LossSums& sums) = 0;
  /// Independent classes; the loss of an example is the mean over K. Hits: with labels, as above, the largest logit
  /// being the label's; with targets, every logit above 0 where the target is above ½, and not elsewhere.
  /// \param labels [batch], each the one class that is 1, or of one logit (K = 1) its target, 0 or 1; or empty
  /// \param targets [batch, K] row-major, in [0, 1]; or empty
  virtual void sigmoid_cross_entropy(const Extent& extent, Index batch, View logits,
                                     std::span<const std::int32_t> labels, View targets, float smoothing,
                                     const LossScale& scale, MutableView dlogits, LossSums& sums) = 0;
  /// The loss of an example is the mean over its outputs of the loss of y − t. \param targets [batch, C, H, W]
  /// row-major
  virtual void error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                          MutableView doutputs, LossSums& sums) = 0;

  // Vector algebra on θ, g and optimizer state; one pass over memory each
  // -----------------------------------------------------

  /// x = 0
  virtual void clear(MutableView x) = 0;
  /// Σ x². Waits. On the CPU it is the exact sum, rounded as ExactSquares says; on a device a sum of doubles, in an
  /// order that depends on x.size() alone.
  virtual double squared_norm(View x) = 0;
  /// norms[i] = Σ x² over ranges[i], likewise, for as many. \param norms in the backend's memory
  virtual void squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) = 0;
  /// sums[i] += Σ x² over ranges[i], which other ranks add the rest to. \param exactly else as sums made in doubles
  /// \throws ConfigError on devices, among which θ is not divided yet
  virtual void sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums);
  /// y ← a x + b y; with b = 0 it does not matter what y held. y may be x.
  virtual void axpby(float a, View x, float b, MutableView y) = 0;

  // Update rules, on the ranges that are named: see optim for formulas and papers
  // -------------------------------------------------

  /// `velocity` empty: without momentum.
  virtual void sgd_update(const SgdStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                          MutableView theta, MutableView velocity) = 0;
  virtual void adagrad_update(const AdagradStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              View g, MutableView theta, MutableView accumulator) = 0;
  virtual void rmsprop_update(const RmspropStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                              View g, MutableView theta, MutableView mean_square) = 0;
  virtual void adam_update(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                           View g, MutableView theta, MutableView first, MutableView second) = 0;
  /// Each range at its own rate. \param norms squared, of θ and g, a number a range
  virtual void lars_update(const LarsStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                           const RangeNorms& norms, View g, MutableView theta, MutableView velocity) = 0;
  /// directions[i] = Σ (Adam's direction, decay included)² over ranges[i]; the moments are updated, θ is not.
  virtual void lamb_moments(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                            View g, View theta, MutableView first, MutableView second,
                            std::span<double> directions) = 0;
  /// sums[i] += Σ direction² over ranges[i], from the moments that lamb_moments left; as sum_squares.
  virtual void sum_lamb_directions(const AdamStep& step, std::span<const UpdateRange> ranges, View theta, View first,
                                   View second, bool exactly, std::span<ExactSquares> sums);
  /// θ ← θ − ratio · rate · direction, from the moments that lamb_moments left; ratio = ‖θ‖ / ‖direction‖ of the range,
  /// 1 where either is 0. \param norms squared: of θ, and of its directions
  virtual void lamb_apply(const AdamStep& step, std::span<const UpdateRange> ranges, const RangeNorms& norms,
                          MutableView theta, View first, View second) = 0;
};

/// The CPU's kernels.
/// \param threads at least 1
std::unique_ptr<Backend> make_cpu_backend(int threads);

/// What the CPU's kernels are compiled for, here: "AVX-512", "AVX2" or "portable". Others round otherwise.
/// \throws ConfigError where the environment's UNISONO_MAX_ISA is none of these
std::string cpu_instruction_set();

}  // namespace unisono::kernels
