#pragma once

#include <array>
#include <map>
#include <vector>

#include "cuda/convolution_plans.hpp"
#include "cuda/queue.hpp"
#include "unisono/kernels/compute_device.hpp"

namespace unisono::kernels::cuda {

/// x or dx, w or dw, y or dy, b; in the layouts of CudaBackend.
struct ConvolutionMemory {
  const void *x = nullptr, *w = nullptr, *y = nullptr, *b = nullptr;
};

/// Convolutions by cuDNN's graph API, planned once for each shape and batch.
class Convolutions {
 public:
  /// \param fallbacks is told where cuDNN has only slower ways; null: nobody is
  explicit Convolutions(Precision precision, Fallbacks* fallbacks = nullptr);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// Whether the library has a kernel for it that is wanted; see ConvolutionPlanner.
  bool can(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
    return planned(pass, spec, batch).plan.found();
  }
  /// Whether it has one for forward_fused; else that is noted as a fallback.
  bool can_fuse(const ConvolutionSpec& spec, Index batch);
  std::size_t workspace_bytes(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
    return planned(pass, spec, batch).plan.workspace_bytes;
  }
  /// \pre can(…) \throws DeviceError
  void run(Queue& queue, ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
           const ConvolutionMemory& memory, void* workspace);

  WeightGradients weight_gradients() const { return weight_gradients_; }

  /// A pass and the plan that was made for it, found or not.
  struct Planned {
    ConvolutionPass pass;
    ConvolutionSpec spec;
    Index batch;
    ConvolutionPlan plan;
    std::int64_t times = 0;  ///< how often it was run
    bool is_noted = false;   ///< as a fallback
    /// "weight gradient of 16×32×32 → 16, 3×3, batch 128: engine 57, bf16, workspace 1.5 MiB"
    std::string text() const;
  };
  /// All plans so far, in the order in which they were made.
  std::vector<const Planned*> plans() const { return order_; }
  /// The engines of those that have run.
  std::vector<ConvolutionEngine> engines() const;

 private:
  using Key = std::array<Index, 16>;
  Planned& planned(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch);
  void note(Fallback kind, const std::string& text) const;

  Precision precision_;
  Fallbacks* fallbacks_;
  WeightGradients weight_gradients_;
  cudnnHandle_t handle_ = nullptr;
  ConvolutionPlanner planner_;
  std::map<Key, Planned> plans_;
  std::vector<const Planned*> order_;
};

}  // namespace unisono::kernels::cuda
