#include <array>

#include "product_case.hpp"

namespace unisono::kernels::cpu {
namespace {

using Values = std::vector<double>;

// The magnitudes of Winograd's matrices: Bᵀ and G turn tiles and kernels to `size` values each way, Aᵀ these to `tile`
// outputs. A value goes through at most so many roundings: in Bᵀ, Aᵀ and G, or in Bᵀ, A and Gᵀ, each of them twice.

struct F2 {
  static constexpr Winograd winograd = Winograd::tiles_2x2;
  static constexpr std::size_t tile = 2, size = 4;
  static constexpr double b[4][4] = {{1, 0, 1, 0}, {0, 1, 1, 0}, {0, 1, 1, 0}, {0, 1, 0, 1}};
  static constexpr double g[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}, {0, 0, 1}};
  static constexpr double a[2][4] = {{1, 1, 1, 0}, {0, 1, 1, 1}};
  static constexpr Index roundings = 2 * (1 + 2 + 2);
};

struct F4 {
  static constexpr Winograd winograd = Winograd::tiles_4x4;
  static constexpr std::size_t tile = 4, size = 6;
  static constexpr double b[6][6] = {{4, 0, 5, 0, 1, 0}, {0, 4, 4, 1, 1, 0}, {0, 4, 4, 1, 1, 0},
                                     {0, 2, 1, 2, 1, 0}, {0, 2, 1, 2, 1, 0}, {0, 4, 0, 5, 0, 1}};
  static constexpr double g[6][3] = {{1. / 4, 0, 0},
                                     {1. / 6, 1. / 6, 1. / 6},
                                     {1. / 6, 1. / 6, 1. / 6},
                                     {1. / 24, 1. / 12, 1. / 6},
                                     {1. / 24, 1. / 12, 1. / 6},
                                     {0, 0, 1}};
  static constexpr double a[4][6] = {{1, 1, 1, 1, 1, 0}, {0, 1, 1, 2, 2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, 1, 8, 8, 1}};
  // 5 x and two additions; three additions; a rounded constant, its product and two additions. Backward, A has two
  // additions, and Gᵀ three, with a constant and its product.
  static constexpr Index roundings = 2 * (3 + 3 + 5);
};

/// M values Mᵀ, for M (rows × columns) or, transposed, Mᵀ values M.
template <std::size_t rows, std::size_t columns>
std::array<double, rows * rows> both_ways(const double (&m)[rows][columns], const double (&values)[columns * columns]) {
  std::array<double, rows * rows> result{};
  for (std::size_t i = 0; i < rows * rows; ++i) {
    for (std::size_t j = 0; j < columns * columns; ++j) {
      result[i] += m[i / rows][j / columns] * m[i % rows][j % columns] * values[j];
    }
  }
  return result;
}

template <std::size_t rows, std::size_t columns>
std::array<double, columns * columns> both_ways_back(const double (&m)[rows][columns],
                                                     const std::array<double, rows * rows>& values) {
  std::array<double, columns * columns> result{};
  for (std::size_t i = 0; i < columns * columns; ++i) {
    for (std::size_t j = 0; j < rows * rows; ++j) {
      result[i] += m[j / rows][i / columns] * m[j % rows][i % columns] * values[j];
    }
  }
  return result;
}

/// An image's magnitudes, with zeros around it.
struct Images {
  Extent extent;
  View values;
  double at(Index example, Index channel, Index y, Index x) const {
    if (y < 0 || y >= extent.height || x < 0 || x >= extent.width) return 0;
    const Index i = ((example * extent.channels + channel) * extent.height + y) * extent.width + x;
    return std::abs(static_cast<double>(values[static_cast<std::size_t>(i)]));
  }
};

template <typename F>
using Tile = std::array<double, F::size * F::size>;

template <typename F>
Tile<F> input_tile(const Images& x, Index example, Index channel, Index y, Index first) {
  constexpr Index size = F::size;
  double d[size * size];
  for (Index i = 0; i < size * size; ++i) d[i] = x.at(example, channel, y + i / size, first + i % size);
  return both_ways(F::b, d);
}

/// What Σ |terms| is to a direct sum: the magnitudes of all that is added up for each value of x ∗ w by Winograd's
/// method. \param weight (o, i, tap)
template <typename F, typename Weight>
Values magnitudes(const Images& x, const Extent& out, Index padding_height, Index padding_width, Index batch,
                  const Weight& weight) {
  constexpr Index tile = F::tile;
  Values y(static_cast<std::size_t>(batch * out.size()));
  std::vector<Tile<F>> u;
  for (Index o = 0; o < out.channels; ++o) {
    for (Index c = 0; c < x.extent.channels; ++c) {
      double g[9];
      for (Index tap = 0; tap < 9; ++tap) g[tap] = std::abs(static_cast<double>(weight(o, c, tap)));
      u.push_back(both_ways(F::g, g));
    }
  }
  for (Index example = 0; example < batch; ++example) {
    for (Index oy = 0; oy < out.height; oy += tile) {
      for (Index ox = 0; ox < out.width; ox += tile) {
        std::vector<Tile<F>> v;
        for (Index c = 0; c < x.extent.channels; ++c) {
          v.push_back(input_tile<F>(x, example, c, oy - padding_height, ox - padding_width));
        }
        for (Index o = 0; o < out.channels; ++o) {
          double m[F::size * F::size] = {};
          for (std::size_t c = 0; c < v.size(); ++c) {
            for (std::size_t i = 0; i < std::size(m); ++i)
              m[i] += v[c][i] * u[static_cast<std::size_t>(o) * v.size() + c][i];
          }
          const auto pixels = both_ways(F::a, m);
          for (Index i = 0; i < tile * tile; ++i) {
            const Index row = oy + i / tile, column = ox + i % tile;
            if (row >= out.height || column >= out.width) continue;
            const Index at = ((example * out.channels + o) * out.height + row) * out.width + column;
            y[static_cast<std::size_t>(at)] = pixels[static_cast<std::size_t>(i)];
          }
        }
      }
    }
  }
  return y;
}

template <typename F>
Values weight_magnitudes(const ProductCase& c, View dy) {
  constexpr Index tile = F::tile;
  const Extent out = c.spec.out();
  const Images x{c.spec.in, c.x}, gradient{out, dy};
  Values dw;
  for (Index o = 0; o < out.channels; ++o) {
    for (Index channel = 0; channel < c.spec.in.channels; ++channel) {
      Tile<F> u{};
      for (Index example = 0; example < c.options.batch; ++example) {
        for (Index oy = 0; oy < out.height; oy += tile) {
          for (Index ox = 0; ox < out.width; ox += tile) {
            const auto v = input_tile<F>(x, example, channel, oy - c.spec.padding_height, ox - c.spec.padding_width);
            std::array<double, tile * tile> d;
            for (Index i = 0; i < tile * tile; ++i) {
              d[static_cast<std::size_t>(i)] = gradient.at(example, o, oy + i / tile, ox + i % tile);
            }
            const auto z = both_ways_back(F::a, d);
            for (std::size_t i = 0; i < u.size(); ++i) u[i] += v[i] * z[i];
          }
        }
      }
      for (double value : both_ways_back(F::g, u)) dw.push_back(value);
    }
  }
  return dw;
}

/// The longest chain of roundings that a value goes through, each at most u of the magnitudes above: the sum of the
/// products, the transforms, the bias, what was there before, and one of the parts.
template <typename F>
double roundings(Index terms) {
  return static_cast<double>(terms + F::roundings + 3) * kRoundoff;
}

template <typename F>
void check_winograd_of(ConvolutionSpec spec, const ProductOptions& options) {
  spec.winograd = F::winograd;
  INFO("tiles of " << F::tile << ", batch " << options.batch << ", " << spec.in.channels << " × " << spec.in.height
                   << " × " << spec.in.width << " → " << spec.channels << ", padding " << spec.padding_height << " × "
                   << spec.padding_width);
  const ProductCase c(spec, options);
  REQUIRE(method_of(spec, options.batch, {}) == ConvolutionMethod::winograd);
  const auto values = expected(c, false), sizes = expected(c, true);
  const Index in = spec.in.channels, out = spec.channels, batch = options.batch;
  const auto w = [&](Index o, Index i, Index tap) { return c.w[static_cast<std::size_t>((o * in + i) * 9 + tap)]; };
  auto y = magnitudes<F>({spec.in, c.x}, spec.out(), spec.padding_height, spec.padding_width, batch, w);
  for (std::size_t i = 0; options.bias && i < y.size(); ++i) {
    y[i] += std::abs(static_cast<double>(c.b[reference::channel_of(spec.out(), i)]));
  }
  const Floats dy(values[1].begin(), values[1].end());  // masked
  const auto dx = magnitudes<F>({spec.out(), dy}, spec.in, 2 - spec.padding_height, 2 - spec.padding_width, batch,
                                [&](Index i, Index o, Index tap) { return w(o, i, 8 - tap); });
  auto dw = weight_magnitudes<F>(c, dy);
  for (std::size_t i = 0; options.write == Write::add && i < dw.size(); ++i) dw[i] += std::abs(double{c.dw[i]});
  constexpr Index tile = F::tile;
  const Index tiles = batch * ((spec.out().height + tile - 1) / tile) * ((spec.out().width + tile - 1) / tile);
  everywhere(
      [&](CpuBackend& backend) { return run(backend, c, convolution_layer(backend, c)); },
      [&](const Outputs& outputs) {
        const auto& found = outputs.tensors;
        CHECK(excess(found[0], values[0], [&](std::size_t i) { return roundings<F>(in) * y[i]; }) <= 1);
        CHECK(excess(found[1], values[1], 0.0) <= 1);
        CHECK(excess(found[2], values[2], [&](std::size_t i) { return roundings<F>(out) * dx[i]; }) <= 1);
        CHECK(excess(found[3], values[3], [&](std::size_t i) { return roundings<F>(tiles) * dw[i]; }) <= 1);
        const double positions = static_cast<double>(batch * spec.out().height * spec.out().width + 4);
        CHECK(excess(found[4], values[4], [&](std::size_t i) { return positions * kRoundoff * sizes[4][i]; }) <= 1);
      });
}

void check_winograd(const ConvolutionSpec& spec, const ProductOptions& options) {
  check_winograd_of<F2>(spec, options);
  check_winograd_of<F4>(spec, options);
}

ConvolutionSpec three_by_three(const Extent& in, Index out, Index padding) {
  return square_kernel(in, out, /*kernel=*/3, /*stride=*/1, padding);
}

}  // namespace

TEST_CASE("Winograd's method gives the reference's outputs and gradients for any batch", "[winograd]") {
  for (Index batch : {0, 1, 2, 7, 33}) check_winograd(three_by_three({16, 4, 4}, 16, 1), {.batch = batch});
}

TEST_CASE("… for even and odd images, and any padding", "[long][winograd]") {
  for (const auto& [height, width] : {std::pair<Index, Index>{3, 3}, {8, 8}, {5, 6}, {9, 4}, {2, 7}}) {
    for (Index padding : {0, 1, 2}) {
      if (padding == 0 && height < 4) continue;
      check_winograd(three_by_three({16, height, width}, 32, padding), {.batch = 2});
    }
  }
  ConvolutionSpec oblong = three_by_three({32, 5, 6}, 16, 2);
  oblong.padding_width = 0;
  check_winograd(oblong, {.batch = 3});
}

TEST_CASE("… for many channels, with fused relu, without bias, and added to what is there", "[long][winograd]") {
  for (Activation activation : {Activation::none, Activation::relu}) {
    for (bool bias : {false, true}) {
      for (Write write : {Write::overwrite, Write::add}) {
        ConvolutionSpec spec = three_by_three({80, 4, 5}, 112, 1);
        spec.activation = activation;
        check_winograd(spec, {.batch = 2, .bias = bias, .write = write});
      }
    }
  }
}

TEST_CASE("Winograd's method is chosen by shape alone", "[winograd]") {
  for (Index batch : {0, 1, 8, 64, 1000}) {
    CHECK(method_of(three_by_three({16, 8, 8}, 32, 1), batch, {}) == ConvolutionMethod::winograd);
    CHECK(method_of(three_by_three({24, 8, 8}, 32, 1), batch, {}) != ConvolutionMethod::winograd);
    CHECK(method_of(three_by_three({16, 8, 8}, 24, 1), batch, {}) != ConvolutionMethod::winograd);
    ConvolutionSpec strided = three_by_three({16, 8, 8}, 32, 1);
    strided.stride_height = 2;
    CHECK(method_of(strided, batch, {}) != ConvolutionMethod::winograd);
    ConvolutionSpec direct = three_by_three({16, 8, 8}, 32, 1);
    direct.winograd = Winograd::none;
    CHECK(method_of(direct, batch, {}) == ConvolutionMethod::channels);
  }
}

TEST_CASE("… for as many channels as a product of large matrices needs", "[long][winograd]") {
  check_winograd(three_by_three({64, 5, 6}, 80, 1), {.batch = 4});
  check_winograd(three_by_three({80, 6, 4}, 64, 1), {.batch = 2, .write = Write::add});
}

// Outputs and gradients of inputs are the same sums in the same order: they do not depend on how many examples there
// are beside one. This holds with BLIS, too, because these two methods do not use it.
TEST_CASE("convolutions with either dimension innermost give the same bits", "[convolution]") {
  for (Index in : {3, 16, 20}) {
    for (Index stride : {0, 1, 2, 3}) {  // 0: of pixels by themselves, whose rows are joined
      ConvolutionSpec spec = stride > 0 ? three_by_three({in, 9, 7}, 20, 1) : square_kernel({in, 5, 3}, 20, 1, 1, 0);
      if (stride > 0) spec.stride_height = spec.stride_width = stride;
      const ProductCase c(spec, {.batch = 5});
      for (InstructionSet set : available_instruction_sets()) {
        const auto with = [&](Innermost innermost) {
          CpuBackend backend({.instruction_set = set, .methods = {.innermost = innermost}});
          return run(backend, c, convolution_layer(backend, c));
        };
        const Outputs examples = with(Innermost::examples), channels = with(Innermost::channels);
        for (std::size_t tensor : {0, 1, 2}) CHECK(examples.tensors[tensor] == channels.tensors[tensor]);
      }
    }
  }
}

}  // namespace unisono::kernels::cpu
