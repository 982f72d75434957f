// Convolutions of 3 × 3 kernels and stride 1 by Winograd's minimal filtering F(2 × 2, 3 × 3), Lavin & Gray, CVPR 2016,
// with the channels innermost. The output is cut into tiles of 2 × 2 pixels. Tiles of 4 × 4 pixels of the input, and
// the kernels, are transformed to 16 values for each channel (or pair of channels); what was a convolution is then 16
// products of matrices, [channels out × channels in] · [channels in × tiles]: 16 multiplications for 4 pixels and 9
// taps, instead of 36.
// Errors are about those of direct sums, see decision 19.
#include <algorithm>
#include <array>

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

/// The tiles of all examples' outputs, row by row, and the pixels that they read and write.
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

  /// Some tiles of a row of tiles.
  struct Part {
    Index example, row, column, tiles;
  };
  /// Calls work(part, tiles before it) for the parts of the tiles [first, first + count).
  template <typename Work>
  void for_each_part(Index first, Index count, const Work& work) const {
    Part part{first / columns / rows, first / columns % rows, first % columns, 0};
    for (Index done = 0; done < count; done += part.tiles) {
      part.tiles = std::min(count - done, columns - part.column);
      work(part, done);
      part.column = 0;
      if (++part.row < rows) continue;
      part.row = 0;
      ++part.example;
    }
  }

  /// Rows of pixels of an image, null where it has none.
  template <std::size_t size, typename Float>
  static std::array<Float*, size> pixel_rows(const Extent& extent, Float* values, Index example, Index y) {
    std::array<Float*, size> to;
    for (std::size_t i = 0; i < size; ++i) {
      const Index row = y + static_cast<Index>(i);
      const bool inside = row >= 0 && row < extent.height;
      to[i] = inside ? values + (example * extent.height + row) * extent.width * extent.channels : nullptr;
    }
    return to;
  }
  auto input_rows(const Part& part, const float* x) const {
    return pixel_rows<4>(in, x, part.example, 2 * part.row - padding_height);
  }
  TileRow input(const Part& part) const { return {2 * part.column - padding_width, in.width, part.tiles, in.channels}; }
  template <typename Float>
  auto output_rows(const Part& part, Float* y) const {
    return pixel_rows<2>(out, y, part.example, 2 * part.row);
  }
  TileRow output(const Part& part) const { return {2 * part.column, out.width, part.tiles, out.channels}; }
};

/// Floats that one thread needs.
/// Whether the device has a product of large matrices, and a convolution's are such.
bool by_large_products(const Loops& loops, Index in, Index out) {
  constexpr Index kLeast = 64;
  return loops.matrix_product != nullptr && std::min(in, out) >= kLeast;
}

Index correlation_floats(Index in, Index out) { return kValues * (plane_of(kTiles, in) + plane_of(kTiles, out)); }

struct Correlation {
  const Tiles& tiles;
  Index batch;
  const float *x, *u;  ///< u [16][in][out]
  const float* bias;
  bool relu;
  float* y;
};

/// y = f(x ∗ w + bias), w transformed. \param memory [threads][correlation_floats]
void correlate(const Loops& loops, int threads, const Correlation& c, float* memory) {
  const Index in = c.tiles.in.channels, out = c.tiles.out.channels, count = c.tiles.count(c.batch);
  const Index v_plane = plane_of(kTiles, in), m_plane = plane_of(kTiles, out), u_plane = plane_of(in, out);
  parallel_ranges(threads, (count + kTiles - 1) / kTiles, [&](Index first, Index end, int thread) {
    float* const v = memory + thread * correlation_floats(in, out);
    float* const m = v + kValues * v_plane;
    for (Index group = first; group < end; ++group) {
      const Index from = group * kTiles, tiles = std::min(kTiles, count - from);
      c.tiles.for_each_part(from, tiles, [&](const Tiles::Part& part, Index before) {
        loops.winograd.input(c.tiles.input_rows(part, c.x).data(), c.tiles.input(part), v + before * in, v_plane);
      });
      const ProductShape shape{.m = out, .n = tiles, .k = in, .lda = out, .ldb = in, .ldc = out};
      const MatrixShape large{.m = out, .n = tiles, .k = in, .a = {1, out}, .b = {1, in}, .ldc = out};
      for (Index value = 0; value < kValues; ++value) {
        const float* const a = c.u + value * u_plane;
        const float* const b = v + value * v_plane;
        if (by_large_products(loops, in, out)) {
          loops.matrix_product(large, a, b, nullptr, m + value * m_plane);
        } else {
          loops.product(shape, &a, &b, 1, nullptr, m + value * m_plane, nullptr);
        }
      }
      c.tiles.for_each_part(from, tiles, [&](const Tiles::Part& part, Index before) {
        loops.winograd.output(m + before * out, m_plane, c.tiles.output(part), c.bias, c.relu,
                              c.tiles.output_rows(part, c.y).data());
      });
    }
  });
}

}  // namespace

void CpuBackend::winograd_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const Tiles tiles(spec.in, spec.out(), spec.padding_height, spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, size = in * out, plane = plane_of(in, out);
  float* const memory = packed_.floats(kValues * plane + 9 * size + settings_.threads * correlation_floats(in, out));
  float* const transposed = memory + kValues * plane;  // [9][I][O]
  const float* const u = prepared(w, kValues * plane, memory, [&](float* to) {
    parallel_for(settings_.threads, 9, [&](Index tap) {
      loops_.transpose(out, in, w.data() + tap * in, 9 * in, transposed + tap * size, out);
    });
    parallel_for(settings_.threads, in, [&](Index channel) {
      loops_.winograd.weights(transposed + channel * out, size, out, to + channel * out, plane);
    });
  });
  const Correlation correlation{
      tiles, batch, x.data(), u, b.empty() ? nullptr : b.data(), spec.activation == Activation::relu, y.data()};
  correlate(loops_, settings_.threads, correlation, transposed + 9 * size);
}

/// dx = dy ∗ w with its taps in reverse order.
void CpuBackend::winograd_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx) {
  const Tiles tiles(spec.out(), spec.in, 2 - spec.padding_height, 2 - spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, plane = plane_of(out, in);
  float* const u = packed_.floats(kValues * plane + settings_.threads * correlation_floats(out, in));
  parallel_for(settings_.threads, out, [&](Index channel) {
    loops_.winograd.weights(w.data() + (channel * 9 + 8) * in, -in, in, u + channel * in, plane);
  });
  correlate(loops_, settings_.threads, {tiles, batch, dy.data(), u, nullptr, false, dx.data()}, u + kValues * plane);
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
  float* const memory = packed_.floats(settings_.threads * kValues * (v_plane + z_plane));
  parallel_ranges(settings_.threads, parts, [&](Index first_part, Index end_part, int thread) {
    float* const v = memory + thread * kValues * (v_plane + z_plane);
    float* const z = v + kValues * v_plane;
    for (Index part = first_part; part < end_part; ++part) {
      float* const sum = sums + part * kValues * plane;
      const Index first = groups * part / parts, end = groups * (part + 1) / parts;
      if (first == end) std::fill_n(sum, kValues * plane, 0.0F);
      for (Index group = first; group < end; ++group) {
        const Index from = group * at_once, some = std::min(at_once, count - from);
        tiles.for_each_part(from, some, [&](const Tiles::Part& row, Index before) {
          loops_.winograd.input(tiles.input_rows(row, x.data()).data(), tiles.input(row), v + before * in, v_plane);
          loops_.winograd.output_gradient(tiles.output_rows(row, dy.data()).data(), tiles.output(row), z + before * out,
                                          z_plane);
        });
        const ProductShape shape{.m = in,
                                 .n = out,
                                 .k = some,
                                 .lda = in,
                                 .ldb = out,
                                 .ldc = in,
                                 .transposed = true,
                                 .accumulate = group > first};
        const MatrixShape large{
            .m = in, .n = out, .k = some, .a = {1, in}, .b = {out, 1}, .ldc = in, .accumulate = group > first};
        for (Index value = 0; value < kValues; ++value) {
          const float* const a = v + value * v_plane;
          const float* const b = z + value * z_plane;
          if (by_large_products(loops_, in, out)) {
            loops_.matrix_product(large, a, b, nullptr, sum + value * plane);
          } else {
            loops_.product(shape, &a, &b, 1, nullptr, sum + value * plane, nullptr);
          }
        }
      }
    }
  });
  add_up_parts(sums, parts, kValues * plane);
  parallel_for(settings_.threads, out, [&](Index channel) {
    loops_.winograd.weight_gradient(sums + channel * in, plane, in, write == Write::add, dw.data() + channel * 9 * in,
                                    in);
  });
}

}  // namespace unisono::kernels::cpu
