#pragma once

#include "cuda/descriptor.hpp"
#include "cuda/precision.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::kernels::cuda {

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
