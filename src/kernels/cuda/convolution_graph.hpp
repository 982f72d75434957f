#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cuda/check.hpp"
#include "cuda/libraries.hpp"
#include "cuda/precision.hpp"
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

}  // namespace unisono::kernels::cuda
