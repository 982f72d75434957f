#pragma once

#include <array>
#include <map>
#include <vector>

#include "cuda/convolution_plans.hpp"
#include "cuda/queue.hpp"

namespace unisono::kernels::cuda {

/// x or dx, w or dw, y or dy, b; in the layouts of CudaBackend.
struct ConvolutionMemory {
  const void *x = nullptr, *w = nullptr, *y = nullptr, *b = nullptr;
};

/// Convolutions by cuDNN's graph API, planned once for each shape and batch.
class Convolutions {
 public:
  explicit Convolutions(Precision precision);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// Whether the library has a kernel for it that is wanted; see ConvolutionPlanner.
  bool can(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) { return plan(pass, spec, batch).found(); }
  std::size_t workspace_bytes(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
    return plan(pass, spec, batch).workspace_bytes;
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
    /// "weight gradient of 16×32×32 → 16, 3×3, batch 128: engine 57, bf16, workspace 1.5 MiB"
    std::string text() const;
  };
  /// All plans so far, in the order in which they were made.
  std::vector<const Planned*> plans() const { return order_; }

 private:
  using Key = std::array<Index, 16>;
  ConvolutionPlan& plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch);

  WeightGradients weight_gradients_;
  cudnnHandle_t handle_ = nullptr;
  ConvolutionPlanner planner_;
  std::map<Key, Planned> plans_;
  std::vector<const Planned*> order_;
};

}  // namespace unisono::kernels::cuda
