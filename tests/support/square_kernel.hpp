#pragma once

#include "unisono/kernels/specs.hpp"

namespace unisono::kernels {

/// A kernel × kernel convolution.
inline ConvolutionSpec square_kernel(const Extent& in, Index out, Index kernel, Index stride, Index padding) {
  return {.in = in,
          .channels = out,
          .kernel_height = kernel,
          .kernel_width = kernel,
          .stride_height = stride,
          .stride_width = stride,
          .padding_height = padding,
          .padding_width = padding};
}

}  // namespace unisono::kernels
