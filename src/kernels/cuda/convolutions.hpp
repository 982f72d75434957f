#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/check.hpp"
#include "cuda/libraries.hpp"
#include "cuda/precision.hpp"
#include "cuda/queue.hpp"
#include "unisono/kernels/compute_device.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::kernels::cuda {

/// A descriptor of cuDNN's graph API: attributes are set, then it is finalised.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type) {
    check(cudnn().cudnnBackendCreateDescriptor(type, &descriptor_), "cudnnBackendCreateDescriptor");
  }
  ~Descriptor() {
    if (descriptor_ != nullptr) cudnn().cudnnBackendDestroyDescriptor(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::span<const T> values) {
    check(cudnn().cudnnBackendSetAttribute(descriptor_, name, type, static_cast<std::int64_t>(values.size()),
                                           values.data()),
          "cudnnBackendSetAttribute");
    return *this;
  }
  template <typename T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, values);
  }
  Descriptor& set(cudnnBackendAttributeName_t name, std::int64_t value) { return set(name, CUDNN_TYPE_INT64, value); }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.get());
  }

  cudnnStatus_t try_finalise() { return cudnn().cudnnBackendFinalize(descriptor_); }
  Descriptor& finalise() {
    check(try_finalise(), "cudnnBackendFinalize");
    return *this;
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};

enum class ConvolutionPass {
  forward,        ///< y = x ∗ w
  forward_fused,  ///< y = activation(x ∗ w + b)
  data,           ///< dx from dy and w
  weights,        ///< dw from x and dy, as floats
  weights_small,  ///< … in the type of activations
};
std::string_view name_of(ConvolutionPass pass);

/// Names of tensors in a graph.
enum ConvolutionTensor : std::int64_t { kX = 'x', kW = 'w', kY = 'y', kBias = 'b', kProduct = 'p', kSum = 's' };

/// The type that a pass writes.
cudnnDataType_t result_of(ConvolutionPass pass, Precision precision);

/// One pass as cuDNN's graph of operations, not finalised: that may fail, where cuDNN knows no such graph. Tensors are
/// [B, H, W, C] and [O, KH, KW, I], packed. \param handle  null: of no device
Descriptor convolution_graph(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch, Precision precision,
                             cudnnHandle_t handle);

/// How cuDNN returns the gradients of convolutions' weights where activations are bf16. Converted to fp32 in any case.
enum class WeightGradients {
  tuned,  ///< as fp32 where cuDNN's heuristics have a tuned engine for that, otherwise as bf16
  fp32,   ///< as fp32 also where only a fallback engine can, which cuDNN compiles at run time
};
/// What UNISONO_WEIGHT_GRADIENTS says in the environment: "tuned", the default, or "fp32". \throws ConfigError
WeightGradients chosen_weight_gradients();

/// The device for which plans are made.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;         ///< of a GPU
  const Descriptor* described = nullptr;  ///< of cuDNN 9.8: a GPU that need not be there; nothing can run
};

/// An engine, and a configuration of it, that cuDNN names for a graph.
struct EngineChoice {
  std::shared_ptr<const Descriptor> graph;  ///< which must outlive the configuration until a plan is made
  std::unique_ptr<Descriptor> configuration;
  std::int64_t engine = -1;  ///< cuDNN's number of it, among those of such graphs
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::vector<cudnnBackendBehaviorNote_t> behavior;

  bool has(cudnnBackendNumericalNote_t note) const;
  bool has(cudnnBackendBehaviorNote_t note) const;
};

/// How a pass is computed; what the choice was is kept for people to read.
struct ConvolutionPlan {
  std::unique_ptr<Descriptor> configuration, execution;
  std::size_t workspace_bytes = 0;
  std::int64_t engine = -1;  ///< -1: there is none
  bool fallback = false;     ///< from cuDNN's fallback list: not chosen for its speed
  bool compiled = false;     ///< its kernel was compiled when the plan was made
  cudnnDataType_t result = CUDNN_DATA_FLOAT;
  double seconds = 0;  ///< that making it took

  bool found() const { return engine >= 0; }
  /// "engine 70, fallback, compiled at run time, fp32, workspace 1.5 MiB", or "no engine that gives fp32"
  std::string text() const;
};

/// Makes plans that are deterministic, sum in fp32, and round inputs no further than the precision says.
class ConvolutionPlanner {
 public:
  ConvolutionPlanner(Precision precision, WeightGradients weight_gradients, PlanTarget target);

  /// A plan with the best engine that cuDNN offers and is_welcome.
  ConvolutionPlan plan(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch) const;
  /// All that a mode of cuDNN's heuristics offers, best first.
  std::vector<EngineChoice> offers(ConvolutionPass pass, const ConvolutionSpec& spec, Index batch,
                                   cudnnBackendHeurMode_t mode) const;
  /// Whether a plan of it can be made.
  bool builds(const EngineChoice& choice) const { return execution_of(choice) != nullptr; }
  bool is_welcome(const EngineChoice& choice) const;

 private:
  std::vector<cudnnBackendHeurMode_t> modes_of(ConvolutionPass pass) const;
  void take_best(ConvolutionPlan& plan, std::vector<EngineChoice> offers) const;
  std::unique_ptr<Descriptor> execution_of(const EngineChoice& choice) const;

  Precision precision_;
  WeightGradients weight_gradients_;
  PlanTarget target_;
};

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
