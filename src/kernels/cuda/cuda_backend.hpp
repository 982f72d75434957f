#pragma once

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "cuda/convolutions.hpp"
#include "cuda/cuda_device.hpp"
#include "cuda/kept_rows.hpp"
#include "cuda/matmul.hpp"
#include "cuda/precision.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/kernels/compute_device.hpp"
#include "unisono/kernels/sequence_kernels.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cuda {

/// A workspace in device memory, valid during one call; it grows to the largest size asked for. Its address must be
/// part of the signature of commands that use it, because it changes when the workspace grows.
class Scratch {
 public:
  explicit Scratch(Allocator& memory) : memory_(&memory) {}

  template <typename T>
  T* take(Index count) {
    const Index floats =
        static_cast<Index>((static_cast<std::size_t>(count) * sizeof(T) + sizeof(float) - 1) / sizeof(float));
    if (buffer_.size() < floats) {
      buffer_ = Buffer();  // first, so that both are never held at once
      buffer_ = Buffer(floats, *memory_);
    }
    return reinterpret_cast<T*>(buffer_.data());
  }
  Index size() const { return buffer_.size(); }

 private:
  Allocator* memory_;
  Buffer buffer_;
};

/// Sums of losses in the device's memory, until `collect` reads them.
struct LossAccumulators {
  double loss, squared, absolute, target, target_squared;
  unsigned long long correct, correct_top5;
};

/// Kernels of one GPU. Activations are [B, H, W, C], in the precision's type; a dense layer's inputs are such a row,
/// and weights and biases are rounded to that type once per pass where it is not fp32.
class CudaBackend final : public Backend, public DeviceRecord {
 public:
  CudaBackend(int device, Precision precision);

  std::string_view platform() const override { return "CUDA"; }
  std::string description() const override;
  int threads() const override { return 1; }
  double measure_peak_flops_per_second() override;
  double measure_bandwidth_bytes_per_second() override;

  Allocator& memory() override { return device_.memory(); }
  Allocator& batch_memory() override { return device_.pinned(); }
  Device* device() override { return &device_; }
  void submit() override { device_.submit(); }
  double waited_seconds() const override { return device_.waited_seconds(); }
  DeviceWork device_work() const override;
  void say_fallbacks(Fallbacks::Say say) override { device_.fallbacks().set_say(std::move(say)); }
  void collect(LossSums& sums) override;

  // Layouts: algebra.cu

  Index activation_size(const Extent& extent, Index batch) const override;
  Index scratch_size() const override;
  std::vector<int> dense_weight_axes() const override { return {0, 2, 3, 1}; }
  std::vector<int> convolution_weight_axes() const override { return {0, 2, 3, 1}; }
  std::vector<int> feature_axes() const override { return {1, 2, 0}; }
  void begin_pass(View parameters) override;  // elements.cu
  void load(const Extent& extent, Index batch, View values, MutableView x) override;
  void store(const Extent& extent, Index batch, View x, MutableView values) override;

  // Sets that the device keeps: kept_rows.cu

  KeptFeatures* keep(const StoredFeatures& features) override;
  std::size_t kept_bytes() const override;
  /// See KeptFeatures::load.
  void load_rows(const KeptRows& kept, std::span<const std::uint64_t> examples, std::span<const Movement> movements,
                 MutableView x);

  // Dense and convolution: cuda_backend.cpp

  void dense_forward(const DenseSpec& spec, Index batch, View x, View w, View b, MutableView y) override;
  void dense_backward(const DenseSpec& spec, Index batch, View x, View w, View y, MutableView dy, MutableView dx,
                      MutableView dw, MutableView db, Write write) override;
  void convolution_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) override;
  void convolution_backward(const ConvolutionSpec& spec, Index batch, View x, View w, View y, MutableView dy,
                            MutableView dx, MutableView dw, MutableView db, Write write) override;

  // Pooling: pool.cu

  void pool_forward(const PoolSpec& spec, Index batch, View x, MutableView y) override;
  void pool_backward(const PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) override;
  void global_average_pool_forward(const Extent& extent, Index batch, View x, MutableView y) override;
  void global_average_pool_backward(const Extent& extent, Index batch, View dy, MutableView dx) override;

  // Normalisation: norms.cu

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

  void rms_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, MutableView y) override;
  void rms_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                         MutableView dgamma, Write write) override;

  // Element by element: elements.cu

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

  // Losses: losses.cu

  void softmax_cross_entropy(Index classes, Index batch, View logits, const Labels& labels, float smoothing,
                             const LossScale& scale, MutableView dlogits, LossSums& sums) override;
  void multiclass_hinge(Index classes, Index batch, View scores, std::span<const std::int32_t> labels,
                        const LossScale& scale, MutableView dscores, LossSums& sums) override;
  void sigmoid_cross_entropy(const Extent& extent, Index batch, View logits, const Labels& labels, View targets,
                             float smoothing, const LossScale& scale, MutableView dlogits, LossSums& sums) override;
  void error_loss(const ErrorSpec& spec, Index batch, View outputs, View targets, const LossScale& scale,
                  MutableView doutputs, LossSums& sums) override;

  // Sequences: tokens.cu, attention.cu, head.cu, sequence_pool.cu; gates: elements.cu

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
  void gate_forward(Index units, Index batch, View x, MutableView y) override;
  void gate_backward(Index units, Index batch, View x, View dy, MutableView dx) override;
  void sequence_pool_forward(const SequencePoolSpec& spec, Index batch, View x, std::span<const std::int32_t> lengths,
                             MutableView y) override;
  void sequence_pool_backward(const SequencePoolSpec& spec, Index batch, std::span<const std::int32_t> lengths, View dy,
                              MutableView dx) override;

  // Vector algebra: algebra.cu

  void clear(MutableView x) override;
  double dot(View x, View y) override;
  double squared_norm(View x) override;
  void squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) override;
  void axpby(float a, View x, float b, MutableView y) override;

  // Update rules: updates.cu

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
  void lamb_apply(const AdamStep& step, std::span<const UpdateRange> ranges, const RangeNorms& norms, MutableView theta,
                  View first, View second) override;

 private:
  Queue& queue() { return device_.queue(); }
  /// Calls act(T{}), T being the type of activations.
  template <typename Act>
  void with_type(Act act) const;
  /// Calls act(Pack{}), with the packs of activations that a thread takes at once: of 16 bytes where `count` values are
  /// whole packs, else of one value.
  template <typename Act>
  void with_packs(Index count, Act act) const;
  /// Blocks of 256 threads for so many elements, but at most 8 for each multiprocessor: each thread of a kernel strides
  /// over the grid for further elements.
  Grid grid_for(Index elements) const;

  /// The pass' parameters in the type of activations: themselves, or their rounded copy. elements.cu
  const void* rounded(View parameters);
  /// dy ← dy ⊙ (y > 0) where y is not empty; db (+)= Σ dy over rows where db is not empty. elements.cu
  void mask_and_sum(Index rows, Index channels, View y, MutableView dy, MutableView db, Write write);
  /// y ← activation(y + b), in place. elements.cu
  void add_bias(Index rows, Index channels, View b, Activation activation, MutableView y);
  /// Address, on the device, of a pointer to the examples' weights; null: all are 1. losses.cu
  const float* const* weights_of(const LossScale& scale);
  /// Adds the sums of a loss kernel's blocks to the accumulators of `sums`. losses.cu
  void add_found(const struct Found* found, Index blocks, Index batch, LossSums& sums);
  /// Adds the losses of some rows; logits become their gradients where these are wanted. head.cu
  void add_head_losses(const HeadSpec& spec, std::span<const std::int32_t> labels, const HeadGradients& wanted,
                       TensorGroup* group, float* logits, LossSums& sums);
  /// The same where other ranks have logits of these rows, too. \param found [rows] is overwritten. head.cu
  void find_shared_losses(const HeadSpec& spec, Index rows, const std::int32_t* const* labels,
                          const HeadGradients& wanted, TensorGroup& group, float* logits, struct Found* found);
  /// gradient (+)= result, which holds floats, or else values of the activations' type. elements.cu
  void take_gradient(const void* result, bool floats, MutableView gradient, Write write);
  /// Reads a number from the device's memory. Waits for it. algebra.cu
  double value_at(const double* number);
  /// sums[r] = Σ x y over range r. algebra.cu
  void sum_products(View x, View y, std::span<const UpdateRange> ranges, std::span<double> sums);
  /// sums[r] = Σ over the chunks of range r. algebra.cu
  void add_chunks(const struct RangeChunks& cut, const double* partial, std::span<double> sums);
  /// The accumulators, in the device's memory, to which kernels add for these sums. losses.cu
  LossAccumulators* accumulators_of(const LossSums& sums);
  /// The angles of rotary positions, on the device; null: there are none. attention.cu
  const struct Turn* turns_of(const AttentionSpec& spec);
  /// A mask for the command that is added next, on the device; null: nothing is dropped. attention.cu
  const struct ScaledMask* staged(const DropoutKey& key);
  /// Counts a product whose epilogue cuBLASLt does not have.
  void note_unfused(const ProductSpec& product, const DenseSpec& spec, Index batch, const char* epilogue);
  double seconds_of_product(Index n);  ///< [n, n] by [n, n]
  double seconds_of_copy(Index floats);
  void convolution_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw, Write write);

  CudaDevice device_;
  Precision precision_;
  Products products_;
  Convolutions convolutions_;
  Scratch workspace_;  ///< for cuBLASLt and cuDNN
  Scratch partials_;   ///< sums of parts, to be added up in a fixed order
  Scratch values_;     ///< results, before they are converted to the caller's layout or type; logits
  Scratch shared_;     ///< what ranks exchange of a head's rows
  Scratch turns_;      ///< the angles of rotary positions
  View parameters_;    ///< of the pass
  Scratch rounded_;    ///< these, in the type of activations, where that is not fp32
  std::vector<std::unique_ptr<KeptRows>> kept_;
  Buffer losses_;
  std::map<const LossSums*, int> loss_slots_;
  std::set<ProductSpec> unfused_;  ///< products whose epilogue cuBLASLt does not have
  std::int64_t unfused_products_ = 0;
};

}  // namespace unisono::kernels::cuda
