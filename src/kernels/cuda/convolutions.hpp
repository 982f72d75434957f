#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cuda/fallbacks.hpp"
#include "cuda/libraries.hpp"
#include "cuda/precision.hpp"
#include "cuda/queue.hpp"
#include "unisono/kernels/device_work.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::kernels::cuda {

class Descriptor;

enum class ConvolutionPass {
  forward,        ///< y = x ∗ w
  forward_fused,  ///< y = activation(x ∗ w + b)
  data,           ///< dx from dy and w
  weights,        ///< dw from x and dy, as floats
  weights_small,  ///< … in the type of activations
};

/// x or dx, w or dw, y or dy, b; in the layouts of CudaBackend.
struct ConvolutionMemory {
  const void *x = nullptr, *w = nullptr, *y = nullptr, *b = nullptr;
};

/// Convolutions by cuDNN's graph API, planned once for each shape and batch. Plans are deterministic, sum in fp32, and
/// round inputs no further than the precision says.
class Convolutions {
 public:
  /// \param fallbacks is told where cuDNN has only slower ways
  Convolutions(Precision precision, Fallbacks& fallbacks);
  ~Convolutions();
  Convolutions(const Convolutions&) = delete;
  Convolutions& operator=(const Convolutions&) = delete;

  /// Whether the library has a kernel for it.
  bool can(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) { return plan(pass, spec, batch).found; }
  /// Whether the library has a kernel for forward_fused; else it is noted as a fallback.
  bool can_fuse(const ConvolutionSpec& spec, Index batch);
  std::size_t workspace_bytes(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) {
    return plan(pass, spec, batch).workspace_bytes;
  }
  /// \pre can(…) \throws DeviceError
  void run(Queue& queue, ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
           const ConvolutionMemory& memory, void* workspace);
  /// Of all passes that have run.
  std::vector<ConvolutionEngine> engines() const;

 private:
  struct Plan {
    std::unique_ptr<Descriptor> configuration, execution;
    std::size_t workspace_bytes = 0;
    bool found = false;
    ConvolutionEngine engine = {};
  };
  using Key = std::array<Index, 16>;
  Plan& plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch);
  Plan make_plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) const;
  Plan find_engine(const Descriptor& graph, cudnnBackendHeurMode_t mode) const;
  bool is_welcome(const Descriptor& engine) const;
  void note_last_resort(const ConvolutionEngine& engine);

  Precision precision_;
  Fallbacks& fallbacks_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

}  // namespace unisono::kernels::cuda
