#pragma once

#include <algorithm>
#include <vector>

#include "cpu/lanes.hpp"
#include "cpu/loops.hpp"
#include "cpu/product_sums.hpp"

// What the methods of convolutions have in common. Direct ones, examples_convolution.cpp and
// channels_convolution.cpp, compute each position of the output as a sum of matrix products over the kernel's taps that
// meet the input there. Borders, strides and dilation only decide which taps these are. Weights are stored
// [O][KH][KW][I / groups]. Neighbouring taps of a row read neighbouring positions, which are contiguous in memory:
// without groups and dilation they are joined to one longer product, a run.

namespace unisono::kernels::cpu {

/// [first, end)
struct Range {
  Index first = 0, end = 0;
  Index size() const { return std::max<Index>(0, end - first); }
  bool operator==(const Range&) const = default;
};

/// One dimension of a convolution: the output's position p and the kernel's element k meet at the input's position
/// p stride − padding + k dilation.
struct Axis {
  Index in, out, kernel, stride, padding, dilation;

  Index input(Index position, Index element) const { return position * stride - padding + element * dilation; }

  /// The kernel's elements that meet the input at an output's position.
  Range elements(Index position) const {
    const Index start = input(position, 0);
    return {start >= 0 ? 0 : (-start + dilation - 1) / dilation,
            std::clamp<Index>((in - start + dilation - 1) / dilation, 0, kernel)};
  }
};

/// An element of the kernel, and the position of one side that it connects with a position of the other side.
struct Tap {
  Index element, position;
  Index place;  ///< of the element in element_order
};

/// The kernel's elements of an axis by residue classes modulo the stride, each in descending order: the order in which
/// the output's positions ascend that an input's position meets.
std::vector<Index> element_order(const Axis& axis);
/// For each position of the output, the taps that meet the input, in ascending order of their elements; for each of the
/// input, those that meet the output, in element_order.
std::vector<std::vector<Tap>> taps_of_outputs(const Axis& axis);
std::vector<std::vector<Tap>> taps_of_inputs(const Axis& axis);

/// A convolution of a batch, with the offsets of its weights, inputs and outputs in memory.
struct Convolution {
  Lanes lanes;
  Axis y, x;
  Index groups, in, out;  ///< channels of a group
  bool runs;              ///< whether neighbouring taps are joined

  Convolution(const ConvolutionSpec& spec, const Lanes& layout)
      : lanes(layout),
        y{spec.in.height,     spec.out().height,   spec.kernel_height,
          spec.stride_height, spec.padding_height, spec.dilation_height},
        x{spec.in.width,     spec.out().width,   spec.kernel_width,
          spec.stride_width, spec.padding_width, spec.dilation_width},
        groups(spec.groups),
        in(spec.in.channels / spec.groups),
        out(spec.channels / spec.groups),
        runs(groups == 1 && x.dilation == 1) {}

  Index taps() const { return y.kernel * x.kernel; }
  Index weights() const { return groups * out * taps() * in; }
  /// Offset in W, in floats.
  Index weight_at(Index channel, Index ky, Index kx) const { return ((channel * y.kernel + ky) * x.kernel + kx) * in; }
  Index input_at(Index block, Index iy, Index ix) const {
    return ((block * y.in + iy) * x.in + ix) * groups * in * lanes.width;
  }
  Index output_at(Index block, Index oy, Index ox) const {
    return ((block * y.out + oy) * x.out + ox) * groups * out * lanes.width;
  }
};

/// How many positions ahead of the current product operands are prefetched: memory takes some 100 ns to target.
inline constexpr Index kPositionsAhead = 4;

/// What to prefetch during the product of a position whose pairs lie in one run: `floats` floats of the left operand of
/// later products, which has `channels` channels for each position.
inline Ahead successors_of(const Loops& loops, const ProductShape& shape, const Pairs& pairs, Index channels,
                           Index floats) {
  const float* const first = pairs.a.back() + (shape.k + kPositionsAhead * channels) * shape.m;
  return {first, fetch_step(loops, shape, pairs.count(), floats), first, 0};
}

}  // namespace unisono::kernels::cpu
