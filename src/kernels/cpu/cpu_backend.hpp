#pragma once

#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "cpu/instruction_set.hpp"
#include "cpu/lanes.hpp"
#include "cpu/loop_team.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/decode_kernels.hpp"
#include "unisono/kernels/pooled_convolution_kernels.hpp"
#include "unisono/kernels/sequence_kernels.hpp"
#include "unisono/kernels/step_kernels.hpp"

namespace unisono::kernels::cpu {

// Which layout activations have, and by which method a convolution is computed. Both follow from shapes:
//
//   activations                                         innermost
//   flat features, [C]                                  examples
//   images, C a multiple of 16                          channels: vectors are full at every batch
//   other images, a batch of more than kFewExamples     examples: channels would leave part of a vector empty
//   other images, fewer examples                        channels: examples would leave more of it empty
//
//   convolutions                                        method
//   a group for each channel                            depthwise, in either layout
//   other groups, a batch of more than kFewExamples     examples innermost: narrow groups leave no lane empty
//   neither side has channels innermost                 examples innermost: products over the lanes
//   3 × 3, stride 1, both channels multiples of 16      Winograd's F(2 × 2, 3 × 3): 4/9 of the multiplications; or
//   and no groups                                       another of Winograd's, or none: ConvolutionSpec::winograd
//   others                                              channels innermost: products over the positions of a row
//
// The methods with the examples and with the channels innermost give the same outputs and gradients of inputs bit for
// bit, so that results do not depend on the batch; so does the depthwise one in its two layouts. Winograd's method
// rounds differently: it is chosen by shapes alone. bench_kernels times them all (bench/kernels/methods.cpp).
//
// BLIS, where the device has it (InstructionSet::blis), multiplies the matrices of large dense layers and of Winograd's
// method with many channels, by the layer's shape alone. The other two methods never use it: it adds in another order
// than `Loops::product`, and their outputs would no longer be the same bits.

inline constexpr Index kFewExamples = 4;

/// What the tables say, or what a test or benchmark has chosen instead for all shapes.
struct Methods {
  std::optional<Innermost> innermost;  ///< of images
  bool winograd = true;

  Innermost innermost_of(const Extent& extent, Index batch) const;
};

inline Innermost Methods::innermost_of(const Extent& extent, Index batch) const {
  if (extent.height * extent.width == 1) return Innermost::examples;
  const bool whole_vectors = extent.channels % Lanes::kVector == 0;
  return innermost.value_or(whole_vectors || batch <= kFewExamples ? Innermost::channels : Innermost::examples);
}

enum class ConvolutionMethod { examples, channels, winograd, depthwise };

inline bool is_depthwise(const ConvolutionSpec& spec) {
  return spec.groups > 1 && spec.groups == spec.in.channels && spec.groups == spec.channels;
}

inline bool winograd_is_faster(const ConvolutionSpec& spec) {
  const auto whole = [](Index channels) { return channels % Lanes::kVector == 0; };
  return spec.winograd != Winograd::none && spec.groups == 1 && spec.kernel_height == 3 && spec.kernel_width == 3 &&
         spec.stride_height == 1 && spec.stride_width == 1 && spec.dilation_height == 1 && spec.dilation_width == 1 &&
         spec.padding_height <= 2 && spec.padding_width <= 2 && whole(spec.in.channels) && whole(spec.channels) &&
         spec.in.height * spec.in.width > 1 && spec.out().height * spec.out().width > 1;
}

inline ConvolutionMethod method_of(const ConvolutionSpec& spec, Index batch, const Methods& methods) {
  const auto channels = [&](const Extent& extent) {
    return methods.innermost_of(extent, batch) == Innermost::channels;
  };
  if (is_depthwise(spec)) return ConvolutionMethod::depthwise;
  if (spec.groups > 1 && batch > kFewExamples) return ConvolutionMethod::examples;
  if (!channels(spec.in) && !channels(spec.out())) return ConvolutionMethod::examples;
  return methods.winograd && winograd_is_faster(spec) ? ConvolutionMethod::winograd : ConvolutionMethod::channels;
}

/// The settings of a backend; only tests and benchmarks choose anything but the number of threads.
struct CpuSettings {
  int threads = 1;
  InstructionSet instruction_set = chosen_instruction_set();
  Methods methods = {};
};

struct RowSums;  // see embedding.cpp

/// The CPU's kernels, on activations that are laid out as `Lanes` and `Methods` say. Each call uses all of the
/// backend's threads, so only one caller may use it at a time.
class CpuBackend final : public Backend, public DecodeKernels, public StepKernels, public PooledConvolutionKernels {
 public:
  explicit CpuBackend(const CpuSettings& settings);
  ~CpuBackend() override;

  std::string_view platform() const override { return "CPU"; }
  std::string description() const override;
  int threads() const override;
  const Methods& methods() const { return settings_.methods; }
  double measure_peak_flops_per_second() override;
  double measure_bandwidth_bytes_per_second() override;
  std::vector<MemoryLevel> measure_memory_levels() override;

  // Layouts

  Index activation_size(const Extent& extent, Index batch) const override;
  Index scratch_size() const override;
  std::vector<int> dense_weight_axes() const override;
  std::vector<int> convolution_weight_axes() const override;
  std::vector<int> feature_axes() const override;

  void fix_parameters() override { fixed_ = true; }
  void load(const Extent& extent, Index batch, View values, MutableView x) override;
  void store(const Extent& extent, Index batch, View x, MutableView values) override;

  // Dense and convolution: dense.cpp, convolution.cpp

  void dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) override;
  void dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy, MutableView dx,
                      MutableView dw, MutableView db, Write write) override;

  bool has_dense_step(const DenseSpec& spec) const override;
  void dense_step(const DenseSpec& spec, Index batch, View x, View dy, Index first, const StepAtOnce& step) override;

  void convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) override;
  void convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                            MutableView dx, MutableView dw, MutableView db, Write write) override;

  // Pooling; after a convolution: pooled_convolution.cpp

  void pooled_convolution_forward(const ConvolutionSpec& spec, const PoolSpec& pool, Index batch, View x, View w,
                                  View b, MutableView y, MutableView places) override;
  void pooled_convolution_backward(const ConvolutionSpec& spec, const PoolSpec& pool, Index batch, View x, View w,
                                   View places, View dy, MutableView dx, MutableView dw, MutableView db,
                                   Write write) override;
  void pool_forward(const PoolSpec& spec, Index batch, View x, MutableView y) override;
  void pool_backward(const PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) override;
  void global_average_pool_forward(const Extent& extent, Index batch, View x, MutableView y) override;
  void global_average_pool_backward(const Extent& extent, Index batch, View dy, MutableView dx) override;

  // Normalisation

  void batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) override;
  void batch_norm_moments(const NormSpec& spec, std::span<const double> sums, double momentum, MutableView running_mean,
                          MutableView running_variance, MutableView mean, MutableView inverse_deviation) override;
  void batch_norm_running_moments(const NormSpec& spec, View running_mean, View running_variance, MutableView mean,
                                  MutableView inverse_deviation) override;
  void batch_norm_forward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View residual,
                          MutableView y) override;
  void batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View y,
                                MutableView dy, std::span<double> sums) override;
  void batch_norm_parameter_gradients(const NormSpec& spec, std::span<const double> sums, MutableView dgamma,
                                      MutableView dbeta, Write write) override;
  void batch_norm_backward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View dy,
                           std::span<const double> sums, MutableView dx) override;

  void layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) override;
  void layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                           MutableView dgamma, MutableView dbeta, Write write) override;

  // Element by element

  void activation_forward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                          MutableView y) override;
  void activation_backward(const ActivationSpec& activation, const Extent& extent, Index batch, View x, View y, View dy,
                           MutableView dx) override;
  void dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
               MutableView y) override;
  void channel_gate_forward(const Extent& extent, Index batch, View x, View factors, MutableView y) override;
  void channel_gate_backward(const Extent& extent, Index batch, View x, View factors, View dy, MutableView dx,
                             MutableView dfactors) override;
  void add(const Extent& extent, Index batch, View x, MutableView y) override;

  // Sequences: embedding.cpp, attention.cpp, head.cpp, norms.cpp, elementwise.cpp, sequence_pool.cpp

  void load_tokens(std::span<const std::int32_t> tokens, MutableView x) override;
  void embedding_forward(const EmbeddingSpec& spec, Index batch, View tokens, View w, View positions,
                         MutableView y) override;
  void embedding_backward(const EmbeddingSpec& spec, Index batch, View tokens, View dy, MutableView dw,
                          MutableView dpositions, Write write) override;
  void attention_forward(const AttentionSpec& spec, Index batch, View x, const DropoutKey& dropout,
                         std::span<const std::uint64_t> examples, MutableView y, MutableView log_sums) override;
  void attention_backward(const AttentionSpec& spec, Index batch, View x, View y, View log_sums,
                          const DropoutKey& dropout, std::span<const std::uint64_t> examples, View dy,
                          MutableView dx) override;
  void head_loss(const HeadSpec& spec, const HeadInputs& inputs, const HeadGradients& gradients, TensorGroup* group,
                 LossSums& sums) override;
  void rms_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, MutableView y) override;
  void rms_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                         MutableView dgamma, Write write) override;
  void gate_forward(Index units, Index batch, View x, MutableView y) override;
  void gate_backward(Index units, Index batch, View x, View dy, MutableView dx) override;
  void sequence_pool_forward(const SequencePoolSpec& spec, Index batch, View x, std::span<const std::int32_t> lengths,
                             MutableView y) override;
  void sequence_pool_backward(const SequencePoolSpec& spec, Index batch, std::span<const std::int32_t> lengths, View dy,
                              MutableView dx) override;

  // Rows of sequences, a few at a time: decode.cpp

  void decode_embedding(const EmbeddingSpec& spec, std::span<const DecodeRow> rows,
                        std::span<const std::int32_t> tokens, View w, View positions, MutableView y) override;
  void decode_dense(const DenseSpec& spec, Index rows, View x, View w, View b, MutableView y) override;
  void decode_attention(const AttentionSpec& spec, std::span<const DecodeRow> rows, View x, MutableView cache,
                        MutableView y) override;
  void decode_layer_norm(const NormSpec& spec, Index rows, View x, View gamma, View beta, MutableView y) override;
  void decode_rms_norm(const NormSpec& spec, Index rows, View x, View gamma, MutableView y) override;
  void decode_activation(const ActivationSpec& activation, Index units, Index rows, View x, MutableView y) override;
  void decode_gate(Index units, Index rows, View x, MutableView y) override;

  // Losses: loss.cpp

  void softmax_cross_entropy(Index classes, Index batch, View logits, const Labels& labels, float smoothing,
                             const LossScale& scale, MutableView dlogits, LossSums& sums) override;
  void multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                        const LossScale& scale, MutableView dscores, LossSums& sums) override;
  void sigmoid_cross_entropy(const Extent& extent, Index batch, View logits, const Labels& labels, View targets,
                             float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) override;
  void error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                  MutableView doutputs, LossSums& sums) override;

  // Vector algebra on θ, g and optimizer state; one pass over memory each

  void clear(MutableView x) override;
  double dot(View x, View y) override;
  double squared_norm(View x) override;
  void squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) override;
  void sum_squares(View x, std::span<const UpdateRange> ranges, bool exactly, std::span<ExactSquares> sums) override;
  void axpby(float a, View x, float b, MutableView y) override;

  // Update rules, on the given ranges: see optim for formulas and papers

  void sgd_update(const SgdStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                  MutableView theta, MutableView velocity) override;
  void adagrad_update(const AdagradStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                      MutableView theta, MutableView accumulator) override;
  void rmsprop_update(const RmspropStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                      MutableView theta, MutableView mean_square) override;
  void adam_update(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                   MutableView theta, MutableView first, MutableView second) override;
  void lars_update(const LarsStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges,
                   const RangeNorms& norms, View g, MutableView theta, MutableView velocity) override;
  void lamb_moments(const AdamStep& step, const GradientScale& scale, std::span<const UpdateRange> ranges, View g,
                    View theta, MutableView first, MutableView second, std::span<double> directions) override;
  void sum_lamb_directions(const AdamStep& step, std::span<const UpdateRange> ranges, View theta, View first,
                           View second, bool exactly, std::span<ExactSquares> sums) override;
  void lamb_apply(const AdamStep& step, std::span<const UpdateRange> ranges, const RangeNorms& norms, MutableView theta,
                  View first, View second) override;
  std::unique_ptr<StepAtOnce> sgd_at_once(const SgdStep& step, float gradient_scale,
                                          std::span<const UpdateRange> ranges, MutableView theta,
                                          MutableView velocity) override;
  std::unique_ptr<StepAtOnce> adam_at_once(const AdamStep& step, float gradient_scale,
                                           std::span<const UpdateRange> ranges, MutableView theta, MutableView first,
                                           MutableView second) override;

 private:
  // Layouts

  Innermost innermost(const Extent& extent, Index batch) const { return settings_.methods.innermost_of(extent, batch); }
  Lanes lanes(const Extent& extent, Index batch) const { return Lanes::of(innermost(extent, batch), batch); }
  /// The loops for vectors of lanes.
  const Loops& loops_of(const Lanes& lanes) const { return lanes.width == Lanes::kNarrow ? narrow_loops_ : loops_; }
  /// x in a layout: x itself where it is laid out so, or is empty; else a copy.
  View in_layout(Innermost layout, const Extent& extent, Index batch, View x, Scratch& scratch);
  /// Where to write activations in a layout: y itself where it is laid out so, or is empty; else the scratch memory.
  MutableView room_in_layout(Innermost layout, const Extent& extent, Index batch, MutableView y, Scratch& scratch);
  /// y = x, which is in a layout, and may be y itself.
  void settle(Innermost layout, const Extent& extent, Index batch, View x, MutableView y);
  /// to = x, which has the other layout than `layout`, in `layout`.
  void convert(Innermost layout, const Extent& extent, Index batch, View x, MutableView to);
  void examples_to_channels(const Extent& extent, Index batch, View x, MutableView to);
  void channels_to_examples(const Extent& extent, Index batch, View x, MutableView to);

  // Dense and convolution

  void mask_and_sum(const Extent& extent, Index batch, View y, MutableView dy, MutableView db, Write write);
  void mask_and_sum_rows(const Extent& extent, Index batch, View y, MutableView dy, MutableView db, Write write);
  static void add_up_bias(const float* sums, Index parts, Index lanes, MutableView db, Write write);
  void dense_forward_of_few_rows(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y);
  void dense_forward_of_few(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y);
  void dense_backward_data(const DenseSpec& spec, Index batch, View w, View dy, MutableView dx);
  void dense_backward_weights(const DenseSpec& spec, Index batch, View x, View dy, MutableView dw, Write write);
  const float* transposed_inputs(const DenseSpec& spec, Index batch, View x);
  /// What a layer makes of its weights w: made in the scratch memory, or once where parameters are fixed.
  const float* prepared(View w, Index floats, float* scratch, const std::function<void(float* to)>& make);
  void examples_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y);
  void pooled_examples_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y,
                               std::uint8_t* places);
  void examples_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx);
  /// dy [columns][channels][lanes] = a row of a convolution's dy, of all its blocks' rows.
  using FillRow = std::function<void(Index row, float* dy)>;
  void examples_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View y, MutableView dy,
                                 MutableView dw, MutableView db, Write write, const FillRow& fill_row = {});
  void channels_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y);
  void channels_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx);
  void channels_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                 Write write);
  /// y = f(w ∗ x + b) of each channel by itself; where `backward`, y is the gradient of the inputs and x that of the
  /// outputs.
  void depthwise_correlate(const ConvolutionSpec& spec, bool backward, Index batch, View x, View w, View b,
                           MutableView y);
  void depthwise_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                  Write write);
  const WinogradLoops& winograd_of(const ConvolutionSpec& spec) const;
  void winograd_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y);
  void winograd_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx);
  void winograd_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                 Write write);
  void add_up_parts(float* sums, Index parts, Index size);

  /// sums ← what `add` computes of each tile of batch normalisation, added up in the tiles' order.
  template <typename Add>
  void add_up_tiles(const NormSpec& spec, Index batch, std::span<double> sums, const Add& add);
  const BatchNormLoops& batch_norm_loops_of(const Lanes& lanes) const;
  void pool_rows_forward(const PoolSpec& spec, const Lanes& lanes, View x, MutableView y);
  void pool_rows_backward(const PoolSpec& spec, const Lanes& lanes, View x, View y, View dy, MutableView dx);

  void pixels_layer_norm_backward(const NormSpec& spec, Index rows, View x, View gamma, View dy, MutableView dx,
                                  MutableView dgamma, MutableView dbeta, Write write);
  void layer_norm_backward_of_lanes(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                    MutableView dgamma, MutableView dbeta, Write write);

  const float* rotary_table(const AttentionSpec& spec);
  void fill_cache(const AttentionSpec& spec, std::span<const DecodeRow> rows, View x, MutableView cache,
                  float* queries);
  void add_row_sums(const RowSums& sums, const Lanes& lanes, Index units, View dy, MutableView table);
  const float* sinusoids(const EmbeddingSpec& spec);
  void rms_norm_backward_of_lanes(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                  MutableView dgamma, Write write);

  // Losses and updates

  void count_hits(const Extent& extent, Index batch, View logits, std::span<const std::int32_t> labels, View targets,
                  LossSums& sums);
  void sgd_chunk(const RangeStep<SgdStep>& step, Index first, Index length, View g, MutableView theta,
                 MutableView velocity) const;
  double settled_directions(const RangeStep<AdamStep>& step, const UpdateRange& range, double sum, View theta,
                            View first_moment, View second_moment);
  void add_directions(const RangeStep<AdamStep>& step, const UpdateRange& range, View theta, View first_moment,
                      View second_moment, ExactSquares& exact) const;
  /// Σ x² to within ExactSquares::kRelativeError.
  double sum_of_squares(View x);

  CpuSettings settings_;
  Loops loops_, narrow_loops_;
  bool fixed_ = false;                                         ///< whether parameters are
  std::map<const float*, Buffer> prepared_;                    ///< by weights: see prepared()
  std::map<std::tuple<Index, Index, double>, Buffer> rotary_;  ///< by rows, width and θ: see rotary_table()
  std::map<std::pair<Index, Index>, Buffer> sinusoids_;        ///< by rows and units: see sinusoids()
  Scratch packed_;                                             ///< transposed operands of products
  Scratch partials_;                   ///< sums of parts of a batch, to be added up in a fixed order
  Scratch x_copy_, y_copy_, dx_copy_;  ///< activations in another layout
  Scratch unpooled_;                   ///< a convolution's output before its pooling, or its gradient
};

}  // namespace unisono::kernels::cpu
