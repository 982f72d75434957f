#pragma once

#include "unisono/kernels/backend.hpp"

// Plain loops in the canonical layout [batch, C, H, W], sums in double: what the kernels of any device are compared
// with.
namespace unisono::reference {

inline std::size_t at(const kernels::Extent& e, Index b, Index c, Index y, Index x) {
  return static_cast<std::size_t>(((b * e.channels + c) * e.height + y) * e.width + x);
}

/// dy ← dy where y > 0.
inline void mask_by_relu(kernels::Activation activation, View y, MutableView dy) {
  if (activation != kernels::Activation::relu) return;
  for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}

inline float activated(kernels::Activation activation, double value) {
  return static_cast<float>(activation == kernels::Activation::relu && value < 0 ? 0 : value);
}

inline void store_sum(float& to, double value, kernels::Write write) {
  to = static_cast<float>(write == kernels::Write::add ? to + value : value);
}

/// Calls visit(y's row, y's column, w's row, w's column, x's row, x's column) for all taps inside x.
template <typename Visit>
void for_each_tap(const kernels::ConvolutionSpec& s, Visit visit) {
  const kernels::Extent out = s.out();
  for (Index i = 0; i < out.height; ++i)
    for (Index j = 0; j < out.width; ++j)
      for (Index k = 0; k < s.kernel_height; ++k)
        for (Index l = 0; l < s.kernel_width; ++l) {
          const Index row = i * s.stride_height - s.padding_height + k * s.dilation_height;
          const Index column = j * s.stride_width - s.padding_width + l * s.dilation_width;
          if (row >= 0 && row < s.in.height && column >= 0 && column < s.in.width) visit(i, j, k, l, row, column);
        }
}

/// Calls visit(example, output channel, input channel, the latter within its group).
template <typename Visit>
void for_each_pair_of_channels(const kernels::ConvolutionSpec& s, Index batch, Visit visit) {
  const Index ins = s.in.channels / s.groups, outs = s.channels / s.groups;
  for (Index b = 0; b < batch; ++b)
    for (Index o = 0; o < s.channels; ++o)
      for (Index c = 0; c < ins; ++c) visit(b, o, o / outs * ins + c, c);
}

inline kernels::Extent weight_extent(const kernels::ConvolutionSpec& s) {  // of one output channel
  return {s.in.channels / s.groups, s.kernel_height, s.kernel_width};
}

inline void convolution_forward(const kernels::ConvolutionSpec& s, Index batch, View x, View w, View b, MutableView y) {
  const kernels::Extent out = s.out(), taps = weight_extent(s);
  std::vector<double> sum(y.size(), 0.0);
  for_each_pair_of_channels(s, batch, [&](Index n, Index o, Index c, Index g) {
    for_each_tap(s, [&](Index i, Index j, Index k, Index l, Index row, Index column) {
      sum[at(out, n, o, i, j)] += static_cast<double>(x[at(s.in, n, c, row, column)]) * w[at(taps, o, g, k, l)];
    });
  });
  const auto plane = static_cast<std::size_t>(out.height * out.width);
  for (std::size_t i = 0; i < static_cast<std::size_t>(batch * out.size()); ++i) {
    const double bias = b.empty() ? 0 : b[i / plane % static_cast<std::size_t>(out.channels)];
    y[i] = activated(s.activation, sum[i] + bias);
  }
}

inline void convolution_backward(const kernels::ConvolutionSpec& s, Index batch, View x, View w, View y, MutableView dy,
                                 MutableView dx, MutableView dw, MutableView db, kernels::Write write) {
  const kernels::Extent out = s.out(), taps = weight_extent(s);
  mask_by_relu(s.activation, y, dy.first(static_cast<std::size_t>(batch * out.size())));
  std::vector<double> sum_x(static_cast<std::size_t>(batch * s.in.size()), 0.0), sum_w(w.size(), 0.0);
  for_each_pair_of_channels(s, batch, [&](Index n, Index o, Index c, Index g) {
    for_each_tap(s, [&](Index i, Index j, Index k, Index l, Index row, Index column) {
      const double slope = dy[at(out, n, o, i, j)];
      sum_x[at(s.in, n, c, row, column)] += slope * w[at(taps, o, g, k, l)];
      sum_w[at(taps, o, g, k, l)] += slope * x[at(s.in, n, c, row, column)];
    });
  });
  for (std::size_t i = 0; i < dw.size(); ++i) store_sum(dw[i], sum_w[i], write);
  if (!dx.empty()) {
    for (std::size_t i = 0; i < sum_x.size(); ++i) dx[i] = static_cast<float>(sum_x[i]);
  }
  for (std::size_t o = 0; o < db.size(); ++o) {
    double sum = 0;
    for (Index n = 0; n < batch; ++n)
      for (Index i = 0; i < out.height; ++i)
        for (Index j = 0; j < out.width; ++j) sum += dy[at(out, n, static_cast<Index>(o), i, j)];
    store_sum(db[o], sum, write);
  }
}

/// A dense layer is a convolution whose kernel covers all of its input.
inline kernels::ConvolutionSpec as_convolution(const kernels::DenseSpec& s) {
  kernels::ConvolutionSpec spec;
  spec.in = s.in;
  spec.channels = s.units;
  spec.kernel_height = s.in.height;
  spec.kernel_width = s.in.width;
  spec.activation = s.activation;
  return spec;
}

}  // namespace unisono::reference
