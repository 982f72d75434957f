// The products that arithmetic binds: forward, and backward for the data and for the weights. "plain" is the obvious
// loop over row-major arrays, as this file is compiled.
#include <algorithm>

#include "harness.hpp"
#include "shapes.hpp"

namespace unisono::bench {
namespace {

std::size_t at(Index index) { return static_cast<std::size_t>(index); }

/// Calls f(x, w, y) with the indices of every multiply-add of y[n, o] = Σ w[o, i] x[n, i].
template <typename Function>
void for_each_product(const kernels::DenseSpec& spec, const Function& f) {
  const Index in = spec.in.size();
  for (Index n = 0; n < kBatch; ++n) {
    for (Index o = 0; o < spec.units; ++o) {
      for (Index i = 0; i < in; ++i) f(at(n * in + i), at(o * in + i), at(n * spec.units + o));
    }
  }
}

/// The same of a convolution of one group, without dilation: x [n, I, H, W], w [O, I, KH, KW], y [n, O, H', W'].
template <typename Function>
void for_each_product(const kernels::ConvolutionSpec& spec, const Function& f) {
  const kernels::Extent in = spec.in, out = spec.out();
  const Index taps = spec.kernel_height * spec.kernel_width;
  for (Index n = 0; n < kBatch; ++n) {
    for (Index o = 0; o < out.channels; ++o) {
      for (Index oy = 0; oy < out.height; ++oy) {
        for (Index ox = 0; ox < out.width; ++ox) {
          const Index y = ((n * out.channels + o) * out.height + oy) * out.width + ox;
          for (Index i = 0; i < in.channels; ++i) {
            for (Index tap = 0; tap < taps; ++tap) {
              const Index iy = oy * spec.stride_height - spec.padding_height + tap / spec.kernel_width;
              const Index ix = ox * spec.stride_width - spec.padding_width + tap % spec.kernel_width;
              if (iy < 0 || iy >= in.height || ix < 0 || ix >= in.width) continue;
              f(at(((n * in.channels + i) * in.height + iy) * in.width + ix), at((o * in.channels + i) * taps + tap),
                at(y));
            }
          }
        }
      }
    }
  }
}

void clear(MutableView values) { std::fill(values.begin(), values.end(), 0.0F); }

/// v: x, w, b, y (or dy), dx, dw, db
template <typename Spec, typename Forward, typename Backward>
void add_products(const std::string& shape, const Spec& spec, const std::vector<Index>& sizes, Work work,
                  const Forward& forward, const Backward& backward) {
  add(
      "forward/" + shape, sizes, work,
      [=](kernels::Backend& b, Vectors& v) { (b.*forward)(spec, kBatch, v[0], v[1], v[2], v[3]); },
      [=](Vectors& v) {
        clear(v[3]);
        for_each_product(spec, [&](std::size_t x, std::size_t w, std::size_t y) { v[3][y] += v[1][w] * v[0][x]; });
      });
  add(
      "backward_data/" + shape, sizes, work,
      [=](kernels::Backend& b, Vectors& v) {
        (b.*backward)(spec, kBatch, v[0], v[1], v[3], v[3], v[4], {}, {}, kernels::Write::overwrite);
      },
      [=](Vectors& v) {
        clear(v[4]);
        for_each_product(spec, [&](std::size_t x, std::size_t w, std::size_t y) { v[4][x] += v[1][w] * v[3][y]; });
      });
  add(
      "backward_weights/" + shape, sizes, work,
      [=](kernels::Backend& b, Vectors& v) {
        (b.*backward)(spec, kBatch, v[0], v[1], v[3], v[3], {}, v[5], v[6], kernels::Write::overwrite);
      },
      [=](Vectors& v) {
        clear(v[5]);
        for_each_product(spec, [&](std::size_t x, std::size_t w, std::size_t y) { v[5][w] += v[3][y] * v[0][x]; });
      });
}

void add_dense(Index in, Index units) {
  const Index x = kBatch * in, w = units * in, y = kBatch * units;
  add_products("dense/64x" + std::to_string(units) + "x" + std::to_string(in), kernels::DenseSpec{{in, 1, 1}, units},
               {x, w, units, y, x, w, units}, in_flops(2.0 * static_cast<double>(kBatch * w)),
               &kernels::Backend::dense_forward, &kernels::Backend::dense_backward);
}

void add_convolution(const std::string& name, const kernels::ConvolutionSpec& spec) {
  const Index taps = spec.kernel_height * spec.kernel_width;
  const Index x = kBatch * spec.in.size(), w = spec.channels * spec.in.channels * taps, y = kBatch * spec.out().size();
  add_products("convolution/" + name, spec, {x, w, spec.channels, y, x, w, spec.channels},
               in_flops(flops_of(spec, kBatch)), &kernels::Backend::convolution_forward,
               &kernels::Backend::convolution_backward);
}

const bool registered = [] {
  for (const auto& [in, units] : kDenseShapes) add_dense(in, units);
  for (const auto& [name, spec] : convolutions()) add_convolution(name, spec);
  return true;
}();

}  // namespace
}  // namespace unisono::bench
