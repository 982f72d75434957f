#pragma once

#include <vector>

#include "unisono/kernels/specs.hpp"

// Dense layers and convolutions in double, in canonical order, one multiplication after the other.

namespace unisono::reference {

using Doubles = std::vector<double>;

/// Calls visit(i of y, i of x, i of w) for every product of a convolution's sum: all arrays are row-major, x [B, C, H,
/// W], y [B, O, OH, OW], w [O, C / groups, KH, KW].
template <typename Visit>
void for_each_product(const kernels::ConvolutionSpec& spec, Index batch, const Visit& visit) {
  const kernels::Extent in = spec.in, out = spec.out();
  const Index group_in = in.channels / spec.groups, group_out = out.channels / spec.groups;
  for (Index b = 0; b < batch; ++b)
    for (Index o = 0; o < out.channels; ++o)
      for (Index oy = 0; oy < out.height; ++oy)
        for (Index ox = 0; ox < out.width; ++ox)
          for (Index c = 0; c < group_in; ++c)
            for (Index ky = 0; ky < spec.kernel_height; ++ky)
              for (Index kx = 0; kx < spec.kernel_width; ++kx) {
                const Index iy = oy * spec.stride_height + ky * spec.dilation_height - spec.padding_height;
                const Index ix = ox * spec.stride_width + kx * spec.dilation_width - spec.padding_width;
                if (iy < 0 || iy >= in.height || ix < 0 || ix >= in.width) continue;
                const Index channel = o / group_out * group_in + c;
                visit(
                    static_cast<std::size_t>(((b * out.channels + o) * out.height + oy) * out.width + ox),
                    static_cast<std::size_t>(((b * in.channels + channel) * in.height + iy) * in.width + ix),
                    static_cast<std::size_t>(((o * group_in + c) * spec.kernel_height + ky) * spec.kernel_width + kx));
              }
}

/// The channel of each value of y.
inline std::size_t channel_of(const kernels::Extent& out, std::size_t i) {
  return i / static_cast<std::size_t>(out.height * out.width) % static_cast<std::size_t>(out.channels);
}

/// y = x ∗ w + b, without activation. \param b empty for none
inline Doubles convolution(const kernels::ConvolutionSpec& spec, Index batch, const Doubles& x, const Doubles& w,
                           const Doubles& b) {
  Doubles y(static_cast<std::size_t>(batch * spec.out().size()), 0.0);
  for_each_product(spec, batch, [&](std::size_t iy, std::size_t ix, std::size_t iw) { y[iy] += x[ix] * w[iw]; });
  if (b.empty()) return y;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += b[channel_of(spec.out(), i)];
  return y;
}

struct ProductGradients {
  Doubles dx, dw, db;
};

/// Of Σ dy ⊙ convolution(x, w, b).
inline ProductGradients convolution_gradients(const kernels::ConvolutionSpec& spec, Index batch, const Doubles& x,
                                              const Doubles& w, const Doubles& dy) {
  ProductGradients gradients{Doubles(x.size(), 0.0), Doubles(w.size(), 0.0),
                             Doubles(static_cast<std::size_t>(spec.channels), 0.0)};
  for_each_product(spec, batch, [&](std::size_t iy, std::size_t ix, std::size_t iw) {
    gradients.dx[ix] += dy[iy] * w[iw];
    gradients.dw[iw] += dy[iy] * x[ix];
  });
  for (std::size_t i = 0; i < dy.size(); ++i) gradients.db[channel_of(spec.out(), i)] += dy[i];
  return gradients;
}

/// A dense layer is a convolution whose kernel is as large as the image.
inline kernels::ConvolutionSpec as_convolution(const kernels::DenseSpec& spec) {
  return {.in = spec.in,
          .channels = spec.units,
          .kernel_height = spec.in.height,
          .kernel_width = spec.in.width,
          .activation = spec.activation};
}

}  // namespace unisono::reference
