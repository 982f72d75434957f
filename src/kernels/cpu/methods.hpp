#pragma once

#include <optional>

#include "cpu/lanes.hpp"

// Which layout activations have, and by which method a convolution is computed. Both follow from shapes:
//
//   activations                                         innermost
//   flat features, [C]                                  examples
//   images, C a multiple of 16                          channels: vectors are full at every batch
//   other images, a batch of more than kFewExamples     examples: channels would leave part of a vector empty
//   other images, fewer examples                        channels: examples would leave more of it empty
//
//   convolutions                                        method
//   groups, or neither side has channels innermost      examples innermost: products over the lanes
//   3 × 3, stride 1, both channels multiples of 16      Winograd's F(2 × 2, 3 × 3): 4/9 of the multiplications; or
//                                                       another of Winograd's, or none: ConvolutionSpec::winograd
//   others                                              channels innermost: products over the positions of a row
//
// The first and the last of these methods give the same outputs and gradients of inputs bit for bit, so that results do
// not depend on the batch. Winograd's method rounds differently: it is chosen by shapes alone. bench_kernels times them
// all (bench/kernels/methods.cpp).
//
// BLIS, where the device has it (InstructionSet::blis), multiplies the matrices of large dense layers and of Winograd's
// method with many channels, by the layer's shape alone. The other two methods never use it: it adds in another order
// than `Loops::product`, and their outputs would no longer be the same bits.

namespace unisono::kernels::cpu {

inline constexpr Index kFewExamples = 4;

/// What the tables say, or what a test or benchmark has chosen instead for all shapes.
struct Methods {
  std::optional<Innermost> innermost;  ///< of images
  bool winograd = true;

  Innermost innermost_of(const Extent& extent, Index batch) const;
};

inline Innermost Methods::innermost_of(const Extent& extent, Index batch) const {
  if (extent.height * extent.width == 1) return Innermost::examples;
  const bool whole_vectors = extent.channels % Lanes::kVector == 0;
  return innermost.value_or(whole_vectors || batch <= kFewExamples ? Innermost::channels : Innermost::examples);
}

enum class ConvolutionMethod { examples, channels, winograd };

inline bool winograd_is_faster(const ConvolutionSpec& spec) {
  const auto whole = [](Index channels) { return channels % Lanes::kVector == 0; };
  return spec.winograd != Winograd::none && spec.kernel_height == 3 && spec.kernel_width == 3 &&
         spec.stride_height == 1 && spec.stride_width == 1 && spec.dilation_height == 1 && spec.dilation_width == 1 &&
         spec.padding_height <= 2 && spec.padding_width <= 2 && whole(spec.in.channels) && whole(spec.channels) &&
         spec.in.height * spec.in.width > 1 && spec.out().height * spec.out().width > 1;
}

inline ConvolutionMethod method_of(const ConvolutionSpec& spec, Index batch, const Methods& methods) {
  const auto channels = [&](const Extent& extent) {
    return methods.innermost_of(extent, batch) == Innermost::channels;
  };
  if (spec.groups > 1 || (!channels(spec.in) && !channels(spec.out()))) return ConvolutionMethod::examples;
  return methods.winograd && winograd_is_faster(spec) ? ConvolutionMethod::winograd : ConvolutionMethod::channels;
}

}  // namespace unisono::kernels::cpu
