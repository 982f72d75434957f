#pragma once

#include <vector>

#include "unisono/kernels/specs.hpp"

namespace unisono {

/// Convolutions for which cuDNN's engines are listed: those of the tests of operations, of LeNet and of ResNet-20.
inline std::vector<kernels::ConvolutionSpec> listed_convolutions() {
  std::vector<kernels::ConvolutionSpec> specs;
  const auto add = [&](kernels::Extent in, Index channels, Index kernel, Index stride, Index padding) {
    kernels::ConvolutionSpec s{.in = in, .channels = channels, .kernel_height = kernel, .kernel_width = kernel};
    s.stride_height = s.stride_width = stride;
    s.padding_height = s.padding_width = padding;
    specs.push_back(s);
  };
  add({8, 6, 6}, 16, 3, 1, 1);
  add({1, 12, 12}, 20, 5, 1, 0);
  add({3, 9, 7}, 5, 3, 2, 1);
  add({16, 8, 8}, 32, 1, 2, 0);
  add({4, 5, 5}, 6, 3, 1, 1);
  add({6, 7, 8}, 9, 3, 1, 2);
  specs.back().groups = 3;
  specs.back().dilation_height = 2;
  specs.back().kernel_width = 2;
  add({1, 28, 28}, 20, 5, 1, 0);  // LeNet
  add({20, 12, 12}, 50, 5, 1, 0);
  for (const Index side : {28, 32}) {  // ResNet-20, of digits and of CIFAR-10
    add({side == 28 ? 1 : 3, side, side}, 16, 3, 1, 1);
    for (Index channels = 16, length = side; channels <= 64; channels *= 2, length /= 2) {
      add({channels, length, length}, channels, 3, 1, 1);
      if (channels == 64) break;
      add({channels, length, length}, 2 * channels, 3, 2, 1);
      add({channels, length, length}, 2 * channels, 1, 2, 0);
    }
  }
  return specs;
}

}  // namespace unisono
