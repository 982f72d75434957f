// Convolutions of 3 × 3 kernels and stride 1 by Winograd's minimal filtering F(m × m, 3 × 3), Lavin & Gray, CVPR 2016,
// with the channels innermost. The output is cut into tiles of m × m pixels. WinogradTiles of (m + 2)² pixels of the
// input, and the kernels, are transformed to (m + 2)² values for each channel (or pair of channels); what was a
// convolution is then (m + 2)² products of matrices, [channels out × channels in] · [channels in × tiles]. For m = 2,
// these are 16 multiplications for 4 pixels and 9 taps, instead of 36; for m = 4, 36 instead of 144. Errors: see
// decision 19.
#include <algorithm>
#include <array>

#include "cpu/cpu_backend.hpp"
#include "cpu/loop_team.hpp"

namespace unisono::kernels::cpu {
namespace {

constexpr Index kColumnsBelow = 64;  ///< channels: above, the products of single values take most of the time
constexpr Index kTiles = 48;         ///< transformed at a time; a multiple of the products' tiles' widths
/// Transformed at a time for a weights' gradient, which is read and written once for each time.
constexpr Index kGradientTiles = 64;
constexpr Index kGradientParts = 8;                    ///< at most, of a weights' gradient
constexpr Index kGradientPartFloats = Index{1} << 18;  ///< of all parts without gaps, if there are more than two

/// Floats of one of a transform's planes. They must not lie a power of two apart: they would share cache sets.
Index plane_of(Index rows, Index columns) { return rows * columns + Lanes::kVector; }

/// The tiles of all examples' outputs, row by row, and the pixels that they read and write.
struct WinogradTiles {
  const WinogradLoops& loops;
  Extent in, out;
  Index padding_height, padding_width;
  Index rows, columns;  ///< of an example

  WinogradTiles(const WinogradLoops& loops_, const Extent& in_, const Extent& out_, Index padding_height_,
                Index padding_width_)
      : loops(loops_),
        in(in_),
        out(out_),
        padding_height(padding_height_),
        padding_width(padding_width_),
        rows((out.height + loops.tile - 1) / loops.tile),
        columns((out.width + loops.tile - 1) / loops.tile) {}

  Index values() const { return (loops.tile + 2) * (loops.tile + 2); }  ///< of a transformed tile or kernel

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

  /// Rows of pixels of an image from row y on, null where it has none.
  template <typename Float>
  static std::array<Float*, 6> pixel_rows(const Extent& extent, Float* values, Index example, Index y) {
    std::array<Float*, 6> to;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const Index row = y + static_cast<Index>(i);
      const bool inside = row >= 0 && row < extent.height;
      to[i] = inside ? values + (example * extent.height + row) * extent.width * extent.channels : nullptr;
    }
    return to;
  }
  void transform_input(const Part& part, const float* x, float* planes, Index plane) const {
    const auto pixels = pixel_rows(in, x, part.example, loops.tile * part.row - padding_height);
    const TileRow row{loops.tile * part.column - padding_width, in.width, part.tiles, in.channels};
    loops.input(pixels.data(), row, planes, plane);
  }
  void transform_gradient(const Part& part, const float* dy, float* planes, Index plane) const {
    loops.output_gradient(pixel_rows(out, dy, part.example, loops.tile * part.row).data(), output(part), planes, plane);
  }
  void transform_output(const Part& part, const float* planes, Index plane, bool summed, const float* bias, bool relu,
                        float* y) const {
    loops.output(planes, plane, summed, output(part), bias, relu,
                 pixel_rows(out, y, part.example, loops.tile * part.row).data());
  }
  TileRow output(const Part& part) const { return {loops.tile * part.column, out.width, part.tiles, out.channels}; }
};

/// Whether the device has a product of large matrices, and a convolution's are such.
bool by_large_products(const Loops& loops, Index in, Index out) {
  constexpr Index kLeast = 64;
  return loops.matrix_product != nullptr && std::min(in, out) >= kLeast;
}

/// Matrices of all transformed values; each value's lie some floats behind those of the value before it.
struct ValueMatrices {
  const float* a;
  Index a_step;
  const float* b;
  Index b_step;
  float* c;
  Index c_step;
};

/// The products of all values, one by one. \param is_large see by_large_products
void value_products(const Loops& loops, Index values, bool is_large, const ProductShape& shape,
                    const ValueMatrices& of) {
  const Index b_row = shape.transposed ? shape.ldb : 1, b_column = shape.transposed ? 1 : shape.ldb;
  const MatrixShape large{.m = shape.m,
                          .n = shape.n,
                          .k = shape.k,
                          .a = {1, shape.lda},
                          .b = {b_row, b_column},
                          .ldc = shape.ldc,
                          .accumulate = shape.accumulate};
  for (Index value = 0; value < values; ++value) {
    const float* const a = of.a + value * of.a_step;
    const float* const b = of.b + value * of.b_step;
    float* const c = of.c + value * of.c_step;
    if (is_large) {
      loops.matrix_product(large, a, b, nullptr, c);
    } else {
      loops.product(shape, &a, &b, 1, nullptr, c, nullptr);
    }
  }
}

/// At most kTiles, so that all threads have about as many.
Index tiles_at_once(Index count, int threads) {
  const Index groups = std::max<Index>(1, (count + kTiles * threads - 1) / (kTiles * threads)) * threads;
  return std::max<Index>(2, ((count + groups - 1) / groups + 1) / 2 * 2);
}

/// Floats that one thread needs.
Index correlation_floats(const WinogradTiles& tiles) {
  return tiles.values() * (plane_of(kTiles, tiles.in.channels) + plane_of(kTiles, tiles.out.channels));
}

struct WinogradCorrelation {
  const WinogradTiles& tiles;
  Index batch;
  const float *x, *u;  ///< u [values][in][out]
  const float* bias;
  bool relu;
  float* y;
};

/// y = f(x ∗ w + bias), w transformed. \param memory [threads][correlation_floats]
void correlate(const Loops& loops, int threads, const WinogradCorrelation& c, float* memory) {
  const Index in = c.tiles.in.channels, out = c.tiles.out.channels, count = c.tiles.count(c.batch);
  const Index values = c.tiles.values();
  const Index v_plane = plane_of(kTiles, in), m_plane = plane_of(kTiles, out), u_plane = plane_of(in, out);
  const bool by_columns = c.tiles.loops.column_products != nullptr && in < kColumnsBelow;
  const bool is_large = by_large_products(loops, in, out);
  const Index at_once = tiles_at_once(count, threads);
  parallel_ranges(threads, (count + at_once - 1) / at_once, [&](Index first, Index end, int thread) {
    float* const v = memory + thread * correlation_floats(c.tiles);
    float* const m = v + values * v_plane;
    for (Index group = first; group < end; ++group) {
      const Index from = group * at_once, tiles = std::min(at_once, count - from);
      c.tiles.for_each_part(from, tiles, [&](const WinogradTiles::Part& part, Index before) {
        c.tiles.transform_input(part, c.x, v + before * in, v_plane);
      });
      if (by_columns) {
        c.tiles.loops.column_products({in, out, tiles, c.u, u_plane, v, v_plane, m, m_plane});
      } else {
        value_products(loops, values, is_large, {.m = out, .n = tiles, .k = in, .lda = out, .ldb = in, .ldc = out},
                       {c.u, u_plane, v, v_plane, m, m_plane});
      }
      c.tiles.for_each_part(from, tiles, [&](const WinogradTiles::Part& part, Index before) {
        c.tiles.transform_output(part, m + before * out, m_plane, by_columns, c.bias, c.relu, c.y);
      });
    }
  });
}

}  // namespace

const WinogradLoops& CpuBackend::winograd_of(const ConvolutionSpec& spec) const {
  return spec.winograd == Winograd::tiles_4x4 ? loops_.winograd4 : loops_.winograd2;
}

void CpuBackend::winograd_forward(const ConvolutionSpec& spec, Index batch, View x, View w, View b, MutableView y) {
  const WinogradTiles tiles(winograd_of(spec), spec.in, spec.out(), spec.padding_height, spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, size = in * out, plane = plane_of(in, out);
  const Index u_floats = tiles.values() * plane;
  float* const memory = packed_.floats(u_floats + 9 * size + settings_.threads * correlation_floats(tiles));
  float* const transposed = memory + u_floats;  // [9][I][O]
  const float* const u = prepared(w, u_floats, memory, [&](float* to) {
    parallel_for(settings_.threads, 9, [&](Index tap) {
      loops_.transpose(out, in, w.data() + tap * in, 9 * in, transposed + tap * size, out);
    });
    parallel_for(settings_.threads, in, [&](Index channel) {
      tiles.loops.weights(transposed + channel * out, size, out, to + channel * out, plane);
    });
  });
  const WinogradCorrelation correlation{
      tiles, batch, x.data(), u, b.empty() ? nullptr : b.data(), spec.activation == Activation::relu, y.data()};
  correlate(loops_, settings_.threads, correlation, transposed + 9 * size);
}

/// dx = dy ∗ w with its taps in reverse order.
void CpuBackend::winograd_backward_data(const ConvolutionSpec& spec, Index batch, View w, View dy, MutableView dx) {
  const WinogradTiles tiles(winograd_of(spec), spec.out(), spec.in, 2 - spec.padding_height, 2 - spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, plane = plane_of(out, in);
  const Index u_floats = tiles.values() * plane;
  float* const u = packed_.floats(u_floats + settings_.threads * correlation_floats(tiles));
  parallel_for(settings_.threads, out, [&](Index channel) {
    tiles.loops.weights(w.data() + (channel * 9 + 8) * in, -in, in, u + channel * in, plane);
  });
  correlate(loops_, settings_.threads, {tiles, batch, dy.data(), u, nullptr, false, dx.data()}, u + u_floats);
}

void CpuBackend::winograd_backward_weights(const ConvolutionSpec& spec, Index batch, View x, View dy, MutableView dw,
                                           Write write) {
  const WinogradTiles tiles(winograd_of(spec), spec.in, spec.out(), spec.padding_height, spec.padding_width);
  const Index in = spec.in.channels, out = spec.channels, count = tiles.count(batch);
  const Index values = tiles.values();
  const Index plane = plane_of(in, out), v_plane = plane_of(kGradientTiles, in),
              z_plane = plane_of(kGradientTiles, out);
  // Parts have sums of their own: threads have independent work, and results depend only on the shape.
  const Index groups = (count + kGradientTiles - 1) / kGradientTiles;
  const Index parts = std::min(std::max<Index>(1, groups),
                               std::clamp<Index>(kGradientPartFloats / (values * in * out), 2, kGradientParts));
  const bool is_large = by_large_products(loops_, in, out);
  // More threads than parts divide the output's channels, and each transforms the tiles.
  const Index slices = std::min(out / Lanes::kVector, (settings_.threads + parts - 1) / parts);
  const auto first_of = [&](Index slice) { return out / Lanes::kVector * slice / slices * Lanes::kVector; };
  float* const sums = partials_.floats(parts * values * plane);
  float* const memory = packed_.floats(settings_.threads * values * (v_plane + z_plane));
  parallel_ranges(settings_.threads, parts * slices, [&](Index first_share, Index end_share, int thread) {
    float* const v = memory + thread * values * (v_plane + z_plane);
    float* const z = v + values * v_plane;
    for (Index share = first_share; share < end_share; ++share) {
      const Index part = share / slices, channel = first_of(share % slices);
      const Index width = first_of(share % slices + 1) - channel;
      float* const sum = sums + part * values * plane + channel * in;
      const Index first = groups * part / parts, end = groups * (part + 1) / parts;
      if (first == end) {
        for (Index value = 0; value < values; ++value) std::fill_n(sum + value * plane, width * in, 0.0F);
      }
      for (Index group = first; group < end; ++group) {
        const Index from = group * kGradientTiles, some = std::min(kGradientTiles, count - from);
        tiles.for_each_part(from, some, [&](const WinogradTiles::Part& row, Index before) {
          tiles.transform_input(row, x.data(), v + before * in, v_plane);
          tiles.transform_gradient(row, dy.data(), z + before * out, z_plane);
        });
        const ProductShape shape{.m = in,
                                 .n = width,
                                 .k = some,
                                 .lda = in,
                                 .ldb = out,
                                 .ldc = in,
                                 .transposed = true,
                                 .accumulate = group > first};
        value_products(loops_, values, is_large, shape, {v, v_plane, z + channel, z_plane, sum, plane});
      }
    }
  });
  add_up_parts(sums, parts, values * plane);
  parallel_for(settings_.threads, out, [&](Index channel) {
    tiles.loops.weight_gradient(sums + channel * in, plane, in, write == Write::add, dw.data() + channel * 9 * in, in);
  });
}

}  // namespace unisono::kernels::cpu
