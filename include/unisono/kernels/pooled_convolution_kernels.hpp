#pragma once

#include "unisono/kernels/layer_kernels.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::kernels {

/// Whether a pooling takes the maximum of each 2 × 2 values, once, with none left over.
inline bool takes_maxima_of_four(const PoolSpec& pool) {
  return pool.kind == PoolKind::max && !pool.is_adaptive() && pool.height == 2 && pool.width == 2 &&
         pool.stride_height == 2 && pool.stride_width == 2 && pool.padding_height == 0 && pool.padding_width == 0 &&
         pool.in.height % 2 == 0 && pool.in.width % 2 == 0;
}

/// Floats of an example that the forward pass of a pooled convolution leaves for the backward one: a byte for each
/// output.
inline Extent pooled_places(const PoolSpec& pool) {
  return {(pool.out().size() + Index{sizeof(float)} - 1) / Index{sizeof(float)}, 1, 1};
}

/// Convolutions with a maximum pooling and maybe a ReLU behind them, so that the convolution's output is not stored.
/// CPUs have them.
class PooledConvolutionKernels {
 public:
  virtual ~PooledConvolutionKernels() = default;

  /// y = f(maxima of four of (x ∗ W + b)), f a ReLU where spec.activation is one: the bits of convolution_forward,
  /// pool_forward and the ReLU. \param pool takes_maxima_of_four \param places activations of pooled_places, for the
  /// backward pass; empty: there is none
  virtual void pooled_convolution_forward(const ConvolutionSpec& spec, const PoolSpec& pool, Index batch, View x,
                                          View w, View b, MutableView y, MutableView places) = 0;
  /// What is wanted (not empty) of dx, dw (+)= and db (+)=, as convolution_backward. \param dy ∂loss/∂y
  virtual void pooled_convolution_backward(const ConvolutionSpec& spec, const PoolSpec& pool, Index batch, View x,
                                           View w, View places, View dy, MutableView dx, MutableView dw, MutableView db,
                                           Write write) = 0;
};

}  // namespace unisono::kernels
