// The layers whose kernels are timed.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cpu/instruction_set.hpp"
#include "square_kernel.hpp"
#include "unisono/kernels/specs.hpp"

namespace unisono::bench {

struct NamedConvolution {
  std::string name;
  kernels::ConvolutionSpec spec;
};

inline kernels::ConvolutionSpec in_groups(kernels::ConvolutionSpec spec, Index groups) {
  spec.groups = groups;
  return spec;
}

/// LeNet's and ResNet-20's; ConvNeXt's and MobileNet's, of each channel by itself; ResNeXt's, in groups.
inline std::vector<NamedConvolution> convolutions() {
  return {{"1x28x28_to_20_by_5x5", kernels::square_kernel({1, 28, 28}, 20, 5, 1, 0)},
          {"20x12x12_to_50_by_5x5", kernels::square_kernel({20, 12, 12}, 50, 5, 1, 0)},
          {"3x32x32_to_16_by_3x3", kernels::square_kernel({3, 32, 32}, 16, 3, 1, 1)},
          {"16x32x32_to_16_by_3x3", kernels::square_kernel({16, 32, 32}, 16, 3, 1, 1)},
          {"16x32x32_to_32_by_3x3_stride_2", kernels::square_kernel({16, 32, 32}, 32, 3, 2, 1)},
          {"32x16x16_to_32_by_3x3", kernels::square_kernel({32, 16, 16}, 32, 3, 1, 1)},
          {"64x8x8_to_64_by_3x3", kernels::square_kernel({64, 8, 8}, 64, 3, 1, 1)},
          {"96x16x16_depthwise_7x7", in_groups(kernels::square_kernel({96, 16, 16}, 96, 7, 1, 3), 96)},
          {"768x7x7_depthwise_7x7", in_groups(kernels::square_kernel({768, 7, 7}, 768, 7, 1, 3), 768)},
          {"128x28x28_depthwise_3x3", in_groups(kernels::square_kernel({128, 28, 28}, 128, 3, 1, 1), 128)},
          {"128x28x28_depthwise_3x3_stride_2", in_groups(kernels::square_kernel({128, 28, 28}, 128, 3, 2, 1), 128)},
          {"128x14x14_32_groups_3x3", in_groups(kernels::square_kernel({128, 14, 14}, 128, 3, 1, 1), 32)}};
}

/// A dense layer: inputs and units.
using DenseShape = std::array<Index, 2>;
inline constexpr std::array<DenseShape, 3> kDenseShapes = {{{784, 512}, {512, 512}, {4096, 4096}}};

inline constexpr std::array<Index, 3> kBatches = {1, 8, 64};

/// For names of benchmarks.
inline const char* name_of(kernels::cpu::InstructionSet set) {
  constexpr std::array<const char*, 4> kNames = {"portable", "portable_and_blis", "avx2", "avx512"};
  return kNames[static_cast<std::size_t>(set)];
}

/// Flops of a pass are those of the taps that lie in the image or its padding, as everywhere.
inline double flops_of(const kernels::ConvolutionSpec& spec, Index batch) {
  return 2.0 * static_cast<double>(batch * spec.out().size() * (spec.in.channels / spec.groups) * spec.kernel_height *
                                   spec.kernel_width);
}

}  // namespace unisono::bench
