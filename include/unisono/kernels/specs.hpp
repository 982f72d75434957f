#pragma once

#include <algorithm>

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels {

/// The shape of one example: C channels of H × W values. A flat vector of features has H = W = 1.
struct Extent {
  Index channels = 1, height = 1, width = 1;
  Index size() const { return channels * height * width; }
  bool operator==(const Extent&) const = default;
};

/// The activation functions of layers.
enum class Activation {
  none,
  relu,
  gelu,
  tanh,
  sigmoid,
  silu,        ///< x σ(x)
  leaky_relu,  ///< x where x > 0, else a x
  elu,         ///< x where x > 0, else a (eˣ − 1)
  softplus,    ///< ln(1 + eˣ)
  gelu_tanh    ///< ½ x (1 + tanh(√(2/π) (x + 0.044715 x³)))
};

/// An activation function with its parameter, the `a` of Activation::leaky_relu and elu.
struct ActivationSpec {
  ActivationSpec(Activation kind_, float number_ = 0) : kind(kind_), number(number_) {}  // most have none

  Activation kind;
  float number;  ///< a, not negative

  /// Whether the derivative is computed from x; false: it is a function of y.
  bool reads_input() const {
    return kind == Activation::gelu || kind == Activation::silu || kind == Activation::gelu_tanh;
  }
};

/// A loss as a function of an output's error e = y − t.
enum class ErrorLoss {
  squared,   ///< e²
  absolute,  ///< |e|
  huber      ///< ½ e² where |e| ≤ δ, else δ (|e| − ½ δ): Huber, Ann. Math. Stat. 35(1), 1964
};

/// A loss of outputs y and targets t.
struct ErrorSpec {
  Extent extent;  ///< extent of the outputs
  ErrorLoss loss = ErrorLoss::squared;
  float delta = 1;  ///< δ, above 0
};

/// A dense layer.
struct DenseSpec {
  Extent in;  ///< the input, which may be spatial: its values are flattened in canonical order
  Index units = 1;
  Activation activation = Activation::none;  ///< none or relu: what is fused into the product
};

/// The tiles of the output in which a CPU computes convolutions of 3 × 3 taps and stride 1 between multiples of 16
/// channels by Winograd's method; Winograd::none: it adds up the taps. Other convolutions and other devices take no
/// notice.
enum class Winograd {
  none,
  tiles_2x2,  ///< F(2 × 2, 3 × 3): rounding errors are about those of direct sums
  tiles_4x4   ///< F(4 × 4, 3 × 3): fewer multiplications, larger errors
};

/// A convolution layer.
struct ConvolutionSpec {
  Extent in;
  Index channels = 1;  ///< channels of the output
  Index kernel_height = 1, kernel_width = 1;
  Index stride_height = 1, stride_width = 1;
  Index padding_height = 0, padding_width = 0;  ///< zeros on each side
  Index dilation_height = 1, dilation_width = 1;
  Index groups = 1;
  Winograd winograd = Winograd::tiles_2x2;
  Activation activation = Activation::none;  ///< none or relu

  Extent out() const {
    const auto length = [](Index n, Index k, Index s, Index p, Index d) {
      return (n + 2 * p - d * (k - 1) - 1) / s + 1;
    };
    return {channels, length(in.height, kernel_height, stride_height, padding_height, dilation_height),
            length(in.width, kernel_width, stride_width, padding_width, dilation_width)};
  }
};

enum class PoolKind { max, average };

/// The rows, or the columns, of an input that an output sees: [first, last).
struct PoolWindow {
  Index first, last;
};

/// A layer that takes the maximum or average of windows.
struct PoolSpec {
  PoolKind kind = PoolKind::max;
  Extent in;
  Index height = 2, width = 2;  ///< size of the window
  Index stride_height = 2, stride_width = 2;
  Index padding_height = 0, padding_width = 0;
  /// Where above 0, the size of the output: output i of n sees inputs ⌊i·H/n⌋ … ⌈(i + 1)·H/n⌉ − 1, and the members
  /// above say nothing.
  Index out_height = 0, out_width = 0;

  bool is_adaptive() const { return out_height > 0; }
  PoolWindow rows_of(Index row) const {
    return window(row, in.height, height, stride_height, padding_height, out_height);
  }
  PoolWindow columns_of(Index column) const {
    return window(column, in.width, width, stride_width, padding_width, out_width);
  }
  Extent out() const {
    if (is_adaptive()) return {in.channels, out_height, out_width};
    return {in.channels, (in.height + 2 * padding_height - height) / stride_height + 1,
            (in.width + 2 * padding_width - width) / stride_width + 1};
  }

 private:
  static PoolWindow window(Index i, Index in, Index size, Index stride, Index padding, Index out) {
    if (out > 0) return {i * in / out, ((i + 1) * in + out - 1) / out};
    const Index first = i * stride - padding;
    return {std::max<Index>(first, 0), std::min(first + size, in)};
  }
};

/// How the backward pass of batch normalisation knows which values a ReLU let through: there is no ReLU, those of y
/// that are positive, or those that are where y is computed anew from x.
enum class ReluMask { none, from_output, from_input };

/// A layer of batch or layer normalisation.
struct NormSpec {
  Extent extent;
  double epsilon = 1e-5;
  Activation activation = Activation::none;  ///< none or relu
  bool adds_residual = false;                ///< batch normalisation: before the activation
  /// With a residual, dy is masked in place by y: it is the residual's gradient, too. Else it is left as it is.
  ReluMask relu_mask() const {
    if (activation != Activation::relu) return ReluMask::none;
    return adds_residual ? ReluMask::from_output : ReluMask::from_input;
  }
  /// Layer normalisation: each pixel is normalised over its channels by itself, and γ and β have a value for each
  /// channel.
  bool of_pixels = false;
};

}  // namespace unisono::kernels
