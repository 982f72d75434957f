// Convolutions of 3 × 3 kernels and stride 1 by Winograd's minimal filtering F(2 × 2, 3 × 3), Lavin & Gray, CVPR 2016,
// with the channels innermost. The output is cut into tiles of 2 × 2 pixels. Tiles of 4 × 4 pixels of the input, and
// the kernels, are transformed to 16 values for each channel (or pair of channels); what was a convolution is then 16
// products of matrices, [channels out × channels in] · [channels in × tiles]: 16 multiplications for 4 pixels and 9
// taps, instead of 36.
//
// Rounding: a transform adds up to 4 numbers each way, so that errors are some 4 times those of direct sums (see
// tests/kernels/winograd_test.cpp for the bound).
#include <algorithm>
#include <vector>

#include "cpu/cpu_backend.hpp"
#include "cpu/parallel.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kValues = 16;  ///< of a transformed tile or kernel
constexpr Index kTiles = 24;   ///< transformed at a time; a multiple of the products' tiles' widths
constexpr Index kGradientFloats = Index{1}
                                  << 16;       ///< of both sides' tiles, transformed at a time for a weights' gradient
constexpr Index kParts = 8;                    ///< at most, of a weights' gradient
constexpr Index kPartFloats = Index{1} << 18;  ///< of all parts, if there are more than two

/// Floats of one of a transform's 16 planes. They must not lie a power of two apart: they would share cache sets.
Index plane_of(Index rows, Index columns) { return rows * columns + Lanes::kVector; }

/// The tiles of all examples' outputs, in rows, and the pixels that they read and write.
struct Tiles {
  Extent in, out;
  Index padding_height, padding_width;
  Index rows, columns;  ///< of an example

  Tiles(const Extent& in_, const Extent& out_, Index padding_height_, Index padding_width_)
      : in(in_),
        out(out_),
        padding_height(padding_height_),
        padding_width(padding_width_),
        rows((out.height + 1) / 2),
        columns((out.width + 1) / 2) {}

  Index count(Index batch) const { return batch * rows * columns; }

  /// The size² pixels from (y, x) on of an example; `outside` for those that it has not.
  template <Index size, typename Float>
  static void pixels(const Extent& extent, Float* values, Index example, Index y, Index x, Float* outside,
                     Float* (&to)[size * size]) {
    Float* const image = values + example * extent.size();
    for (Index i = 0; i < size; ++i) {
      const bool row = y + i >= 0 && y + i < extent.height;
      for (Index j = 0; j < size; ++j) {
        const bool inside = row && x + j >= 0 && x + j < extent.width;
        to[i * size + j] = inside ? image + ((y + i) * extent.width + x + j) * extent.channels : outside;
      }
    }
  }
  void input(Index tile, const float* x, const float* zeros, const float* (&to)[16]) const {
    const Index example = tile / (rows * columns), row = tile / columns % rows, column = tile % columns;
    pixels<4>(in, x, example, 2 * row - padding_height, 2 * column - padding_width, zeros, to);
  }
  template <typename Float>
  void output(Index tile, Float* y, Float* outside, Float* (&to)[4]) const {
    const Index example = tile / (rows * columns), row = tile / columns % rows, column = tile % columns;
    pixels<2>(out, y, example, 2 * row, 2 * column, outside, to);
  }
};

/// The memory of one thread, and a pixel of zeros for all.
class Workspace {
 public:
  Workspace(Scratch& scratch, int threads, Index channels, Index floats, Index shared)
      : floats_(floats),
        shared_(shared),
        memory_(scratch.floats(channels + shared + threads * floats)),
        channels_(channels) {
    std::fill_n(memory_, channels, 0.0F);
  }
  const float* zeros() const { return memory_; }
  float* shared() const { return memory_ + channels_; }
  float* of(int thread) const { return memory_ + channels_ + shared_ + thread * floats_; }

 private:
  Index floats_, shared_;
  float* memory_;
  Index channels_;
};

struct Correlation {
  const Tiles& tiles;
  Index batch;
  const float *x, *u;  ///< u [16][in][out]
  const float* bias;
  bool relu;
  float* y;
};

/// y = f(x ∗ w + bias), w transformed.
void correlate(const Loops& loops, int threads, const Correlation& c, const Workspace& work) {
  const Index in = c.tiles.in.channels, out = c.tiles.out.channels, count = c.tiles.count(c.batch);
  const Index v_plane = plane_of(kTiles, in), m_plane = plane_of(kTiles, out), u_plane = plane_of(in, out);
  parallel_ranges(threads, (count + kTiles - 1) / kTiles, [&](Index first, Index end, int thread) {
    float* const v = work.of(thread);
    float* const m = v + kValues * v_plane;
    for (Index group = first; group < end; ++group) {
      const Index from = group * kTiles, tiles = std::min(kTiles, count - from);
      for (Index tile = 0; tile < tiles; ++tile) {
        const float* pixels[16];
        c.tiles.input(from + tile, c.x, work.zeros(), pixels);
        loops.winograd.input(pixels, in, v + tile * in, v_plane);
      }
      const ProductShape shape{.m = out, .n = tiles, .k = in, .lda = out, .ldb = in, .ldc = out};
      for (Index value = 0; value < kValues; ++value) {
        const float* const a = c.u + value * u_plane;
        const float* const b = v + value * v_plane;
        loops.product(shape, &a, &b, 1, nullptr, m + value * m_plane, nullptr);
      }
      for (Index tile = 0; tile < tiles; ++tile) {
        float* pixels[4];
        c.tiles.output<float>(from + tile, c.y, nullptr, pixels);
        loops.winograd.output(m + tile * out, m_plane, out, c.bias, c.relu, pixels);
      }
    }
  });
}

Index correlation_floats(Index in, Index out) { return kValues * (plane_of(kTiles, in) + plane_of(kTiles, out)); }

}  // namespace

void CpuBackend::winograd_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Tiles tiles(spec.in, spec.out(), spec.padding_height, spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, size = in * out, plane = plane_of(in, out);
  const Workspace work(packed_, settings_.threads, in, correlation_floats(in, out), kValues * plane + 9 * size);
  float* const u = work.shared();
  float* const transposed = u + kValues * plane;  // [9][I][O]
  parallel_for(settings_.threads, 9, [&](Index tap) {
    loops_.transpose(out, in, w.data() + tap * in, 9 * in, transposed + tap * size, out);
  });
  parallel_for(settings_.threads, in, [&](Index channel) {
    loops_.winograd.weights(transposed + channel * out, size, out, u + channel * out, plane);
  });
  const Correlation correlation{
      tiles, batch, x.data(), u, b.empty() ? nullptr : b.data(), spec.activation == Activation::relu, y.data()};
  correlate(loops_, settings_.threads, correlation, work);
}

/// dx = dy ∗ w with its taps in reverse order.
void CpuBackend::winograd_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx) {
  const Tiles tiles(spec.out(), spec.in, 2 - spec.padding_height, 2 - spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, plane = plane_of(out, in);
  const Workspace work(packed_, settings_.threads, out, correlation_floats(out, in), kValues * plane);
  float* const u = work.shared();
  parallel_for(settings_.threads, out, [&](Index channel) {
    loops_.winograd.weights(w.data() + (channel * 9 + 8) * in, -in, in, u + channel * in, plane);
  });
  correlate(loops_, settings_.threads, {tiles, batch, dy.data(), u, nullptr, false, dx.data()}, work);
}

void CpuBackend::winograd_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                           Write write) {
  const Tiles tiles(spec.in, spec.out(), spec.padding_height, spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, count = tiles.count(batch);
  const Index at_once = std::clamp<Index>(kGradientFloats / kValues / (in + out), 8, 64);
  const Index plane = plane_of(in, out), v_plane = plane_of(at_once, in), z_plane = plane_of(at_once, out);
  // Parts have sums of their own: threads have independent work, and results depend only on the shape.
  const Index groups = (count + at_once - 1) / at_once;
  const Index parts =
      std::min(std::max<Index>(1, groups), std::clamp<Index>(kPartFloats / (kValues * plane), 2, kParts));
  float* const sums = partials_.floats(parts * kValues * plane);
  const Workspace work(packed_, settings_.threads, std::max(in, out), kValues * (v_plane + z_plane), 0);
  parallel_ranges(settings_.threads, parts, [&](Index first_part, Index end_part, int thread) {
    float* const v = work.of(thread);
    float* const z = v + kValues * v_plane;
    for (Index part = first_part; part < end_part; ++part) {
      float* const sum = sums + part * kValues * plane;
      const Index first = groups * part / parts, end = groups * (part + 1) / parts;
      if (first == end) std::fill_n(sum, kValues * plane, 0.0F);
      for (Index group = first; group < end; ++group) {
        const Index from = group * at_once, some = std::min(at_once, count - from);
        for (Index tile = 0; tile < some; ++tile) {
          const float *inputs[16], *outputs[4];
          tiles.input(from + tile, x.data(), work.zeros(), inputs);
          loops_.winograd.input(inputs, in, v + tile * in, v_plane);
          tiles.output<const float>(from + tile, dy.data(), work.zeros(), outputs);
          loops_.winograd.output_gradient(outputs, out, z + tile * out, z_plane);
        }
        const ProductShape shape{.m = in,
                                 .n = out,
                                 .k = some,
                                 .lda = in,
                                 .ldb = out,
                                 .ldc = in,
                                 .transposed = true,
                                 .accumulate = group > first};
        for (Index value = 0; value < kValues; ++value) {
          const float* const a = v + value * v_plane;
          const float* const b = z + value * z_plane;
          loops_.product(shape, &a, &b, 1, nullptr, sum + value * plane, nullptr);
        }
      }
    }
  });
  parallel_for(settings_.threads, out, [&](Index channel) {
    for (Index value = 0; parts > 1 && value < kValues; ++value) {
      float* const total = sums + value * plane + channel * in;
      for (Index part = 1; part < parts; ++part) {
        loops_.algebra.axpby(1, total + part * kValues * plane, 1, total, in);
      }
    }
    loops_.winograd.weight_gradient(sums + channel * in, plane, in, write == Write::add, dw.data() + channel * 9 * in,
                                    in);
  });
}

}  // namespace unisono::kernels::cpu
