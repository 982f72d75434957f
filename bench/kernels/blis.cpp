// The products of methods.cpp by BLIS alone, as a library is ordinarily used: row-major arrays, images with the
// channels innermost, convolutions by image-to-column, whatever method BLIS chooses for a size.
#include <blis.h>

#include <algorithm>
#include <functional>

#include "harness.hpp"
#include "shapes.hpp"

namespace unisono::bench {
namespace {

/// A matrix, and how far apart its rows and its columns lie.
struct Matrix {
  float* data;
  Index row, column;
};

/// C (m × n) = [C +] A (m × k) B (k × n)
void multiply(Index m, Index n, Index k, const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate = false) {
  float one = 1, beta = accumulate ? 1.0F : 0.0F;
  bli_sgemm(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one, a.data, a.row, a.column, b.data, b.row, b.column,
            &beta, c.data, c.row, c.column);
}

void add_call(const std::string& name, const std::vector<Index>& sizes, double flops,
              const std::function<void(Vectors&)>& call) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
    Vectors v(sizes);
    call(v);
    for (auto _ : state) call(v);
    report(state, in_flops(flops), 1);
  });
}

/// x [batch][in], w [units][in], y [batch][units]
void add_dense(const DenseShape& shape, Index batch) {
  const auto [in, units] = shape;
  const std::string name =
      "/dense/" + std::to_string(units) + "x" + std::to_string(in) + "/batch:" + std::to_string(batch) + "/blis";
  const std::vector<Index> sizes{batch * in, units * in, batch * units};
  const double flops = 2.0 * static_cast<double>(batch * in * units);
  add_call("forward" + name, sizes, flops, [=, in = in, units = units](Vectors& v) {
    multiply(batch, units, in, {v[0].data(), in, 1}, {v[1].data(), 1, in}, {v[2].data(), units, 1});
  });
  add_call("backward_data" + name, sizes, flops, [=, in = in, units = units](Vectors& v) {
    multiply(batch, in, units, {v[2].data(), units, 1}, {v[1].data(), in, 1}, {v[0].data(), in, 1});
  });
  add_call("backward_weights" + name, sizes, flops, [=, in = in, units = units](Vectors& v) {
    multiply(units, in, batch, {v[2].data(), 1, units}, {v[0].data(), in, 1}, {v[1].data(), in, 1});
  });
}

/// The patches [y][x][ky][kx][channel] of the images, as many as fit into the second-level cache at a time.
struct Patches {
  kernels::ConvolutionSpec spec;
  Index positions = spec.out().height * spec.out().width;
  Index size = spec.kernel_height * spec.kernel_width * spec.in.channels;
  Index at_once = std::max<Index>(1, (Index{1} << 16) / (positions * size));  ///< images

  /// Calls f(patch, pixel, channels) for each pixel of each patch; pixel is null outside of the image.
  template <typename Function>
  void for_each_pixel(Index images, float* patches, float* x, const Function& f) const {
    const kernels::Extent in = spec.in, out = spec.out();
    for (Index at = 0; at < images * positions; ++at) {
      const Index image = at / positions, oy = at % positions / out.width, ox = at % out.width;
      for (Index ky = 0; ky < spec.kernel_height; ++ky) {
        for (Index kx = 0; kx < spec.kernel_width; ++kx, patches += in.channels) {
          const Index y = oy * spec.stride_height - spec.padding_height + ky;
          const Index z = ox * spec.stride_width - spec.padding_width + kx;
          const bool inside = y >= 0 && y < in.height && z >= 0 && z < in.width;
          f(patches, inside ? x + ((image * in.height + y) * in.width + z) * in.channels : nullptr, in.channels);
        }
      }
    }
  }

  void gather(Index images, float* patches, float* x) const {
    for_each_pixel(images, patches, x, [](float* patch, const float* pixel, Index channels) {
      if (pixel == nullptr) {
        std::fill_n(patch, channels, 0.0F);
      } else {
        std::copy_n(pixel, channels, patch);
      }
    });
  }

  void scatter(Index images, float* patches, float* dx) const {
    for_each_pixel(images, patches, dx, [](const float* patch, float* pixel, Index channels) {
      for (Index c = 0; pixel != nullptr && c < channels; ++c) pixel[c] += patch[c];
    });
  }

  /// Calls f(x, y, images) for groups of images.
  template <typename Function>
  void for_each_group(Index batch, float* x, float* y, const Function& f) const {
    for (Index first = 0; first < batch; first += at_once) {
      f(x + first * spec.in.size(), y + first * spec.out().size(), std::min(at_once, batch - first));
    }
  }
};

/// x [batch][y][x][channel], w [units][ky][kx][channel], y [batch][y][x][unit]
void add_convolution(const NamedConvolution& layer, Index batch) {
  const Patches p{layer.spec};
  const Index units = layer.spec.channels;
  const std::string name =
      "/convolution/" + layer.name + "/batch:" + std::to_string(batch) + "/image_to_column_and_blis";
  const std::vector<Index> sizes{batch * layer.spec.in.size(), units * p.size, batch * layer.spec.out().size(),
                                 p.at_once * p.positions * p.size};
  const double flops = flops_of(layer.spec, batch);
  add_call("forward" + name, sizes, flops, [=](Vectors& v) {
    p.for_each_group(batch, v[0].data(), v[2].data(), [&](float* x, float* y, Index images) {
      p.gather(images, v[3].data(), x);
      multiply(images * p.positions, units, p.size, {v[3].data(), p.size, 1}, {v[1].data(), 1, p.size}, {y, units, 1});
    });
  });
  add_call("backward_data" + name, sizes, flops, [=](Vectors& v) {
    std::fill(v[0].begin(), v[0].end(), 0.0F);
    p.for_each_group(batch, v[0].data(), v[2].data(), [&](float* x, float* y, Index images) {
      multiply(images * p.positions, p.size, units, {y, units, 1}, {v[1].data(), p.size, 1}, {v[3].data(), p.size, 1});
      p.scatter(images, v[3].data(), x);
    });
  });
  add_call("backward_weights" + name, sizes, flops, [=](Vectors& v) {
    p.for_each_group(batch, v[0].data(), v[2].data(), [&](float* x, float* y, Index images) {
      p.gather(images, v[3].data(), x);
      multiply(units, p.size, images * p.positions, {y, 1, units}, {v[3].data(), p.size, 1}, {v[1].data(), p.size, 1},
               x != v[0].data());
    });
  });
}

const bool registered = [] {
  for (const Index batch : kBatches) {
    for (const DenseShape& shape : kDenseShapes) add_dense(shape, batch);
    for (const NamedConvolution& layer : convolutions()) add_convolution(layer, batch);
  }
  return true;
}();

}  // namespace
}  // namespace unisono::bench
