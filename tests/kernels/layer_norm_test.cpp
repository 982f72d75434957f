#include "cpu_fixture.hpp"
#include "reference_norm.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::kernels::cpu {
namespace {

using reference::Over;

/// One batch through both passes. Parameters in canonical order [C, H, W].
struct LayerNormCase {
  NormSpec spec;
  Index batch;
  Floats x, dy, gamma, beta, before;  // before: what the parameters' gradients hold
  reference::Statistics statistics;

  explicit LayerNormCase(const Shape& shape)
      : spec{shape.extent, 1e-5F, Activation::none},
        batch(shape.batch),
        x(random_floats(shape.size(), 31)),
        dy(random_floats(shape.size(), 32)),
        gamma(random_floats(shape.extent.size(), 33, 0.5F, 1.5F)),
        beta(random_floats(shape.extent.size(), 34)),
        before(random_floats(shape.extent.size(), 35)),
        statistics(reference::statistics(Over::example, spec, batch, widen(x))) {}
  Shape shape() const { return {spec.extent, batch}; }
};

Block block_of(CpuBackend& backend, const Extent& extent) {
  Block block;
  block.shape = {extent.channels, extent.height, extent.width};
  block.axes = backend.feature_axes();
  return block;
}

Floats stored(const Block& block, const Floats& canonical) {
  Floats values(canonical.size());
  from_canonical(block, canonical, values);
  return values;
}

Floats canonical(const Block& block, const Floats& values) {
  Floats result(values.size());
  to_canonical(block, values, result);
  return result;
}

Outputs run_layer_norm(CpuBackend& backend, const LayerNormCase& c, Write write) {
  const Shape shape = c.shape();
  const Block block = block_of(backend, c.spec.extent);
  const Floats gamma = stored(block, c.gamma), beta = stored(block, c.beta);
  const Buffer x = to_device(backend, shape, c.x, 50), dy = to_device(backend, shape, c.dy);
  Buffer y = fresh(backend, shape), dx = fresh(backend, shape);
  Floats dgamma = stored(block, c.before), dbeta = dgamma;
  backend.layer_norm_forward(c.spec, c.batch, x.view(), gamma, beta, y.view());
  backend.layer_norm_backward(c.spec, c.batch, x.view(), gamma, dy.view(), dx.view(), dgamma, dbeta, write);
  CHECK(std::isfinite(largest_unused(backend, shape, y.view())));
  CHECK(largest_unused(backend, shape, dx.view()) == 0);
  return {{from_device(backend, shape, y), from_device(backend, shape, dx), canonical(block, dgamma),
           canonical(block, dbeta)},
          {}};
}

// Errors, with K = 1 + max |x| inverse, in units of u: the mean is off by 35 (runs of 32 in float, the rest in double)
// times max |x|, the variance relatively by 36 + 2 K, so that x̂ is off by 40 K (1 + |x̂|) at most. Values of x and dy
// are below 1.
void check_layer_norm(const LayerNormCase& c, const Outputs& outputs, Write write) {
  const auto x = widen(c.x), dy = widen(c.dy), gamma = widen(c.gamma), beta = widen(c.beta);
  const auto size = static_cast<std::size_t>(c.spec.extent.size());
  const auto normal_error = [&](std::size_t i) {
    const double inverse = c.statistics.inverse[i / size], normal = (x[i] - c.statistics.mean[i / size]) * inverse;
    return 40 * kRoundoff * (1 + inverse) * (1 + std::abs(normal));
  };
  const auto y = reference::norm_forward(Over::example, c.spec.extent, c.statistics, x, gamma, beta);
  CHECK(excess(outputs.tensors[0], y, [&](std::size_t i) { return 1.5 * normal_error(i) + 2 * kRoundoff; }) <= 1);

  const auto gradient = reference::norm_backward(Over::example, c.spec.extent, c.statistics, x, gamma, dy);
  // inverse (d − mean d − x̂ mean d x̂): the error of x̂ enters twice, with |d| ≤ 1.5 and the mean of |x̂| ≤ 1 before
  // it;
  // the means have 34 roundings.
  CHECK(excess(outputs.tensors[1], gradient.dx, [&](std::size_t i) {
          const double inverse = c.statistics.inverse[i / size];
          return 1.5 * inverse * 3 * normal_error(i);
        }) <= 1);

  std::vector<double> dgamma = gradient.dgamma, dbeta = gradient.dbeta, bound(size, 4 * kRoundoff);
  for (std::size_t i = 0; i < x.size(); ++i) bound[i % size] += normal_error(i);  // and 16 roundings in float
  for (std::size_t e = 0; e < size && write == Write::add; ++e) {
    dgamma[e] += static_cast<double>(c.before[e]);
    dbeta[e] += static_cast<double>(c.before[e]);
  }
  const auto bound_of = [&](std::size_t e) { return bound[e]; };
  CHECK(excess(outputs.tensors[2], dgamma, bound_of) <= 1);
  CHECK(excess(outputs.tensors[3], dbeta, bound_of) <= 1);
}

}  // namespace

TEST_CASE("layer normalisation gives the reference's outputs and gradients", "[layer_norm][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const LayerNormCase c(shape);
    const Write write = shape.batch % 2 == 0 ? Write::overwrite : Write::add;
    in_all_layouts([&](CpuBackend& backend) { return run_layer_norm(backend, c, write); },
                   [&](const Outputs& outputs) { check_layer_norm(c, outputs, write); });
  }
}

namespace {

/// Values [B · H · W][C] as images [B, C, H, W], or back.
Floats as_images(const Floats& rows, const Extent& extent, bool back = false) {
  Floats to(rows.size());
  const Index pixels = extent.height * extent.width;
  for (Index i = 0; i < static_cast<Index>(rows.size()); ++i) {
    const Index row = i / extent.channels, channel = i % extent.channels;
    const auto image = static_cast<std::size_t>((row / pixels * extent.channels + channel) * pixels + row % pixels);
    const auto flat = static_cast<std::size_t>(i);
    (back ? to[flat] : to[image]) = back ? rows[image] : rows[flat];
  }
  return to;
}

}  // namespace

TEST_CASE("layer normalisation of pixels is that of rows of their channels", "[layer_norm][shapes]") {
  for (const Extent& extent :
       {Extent{3, 5, 4}, Extent{16, 4, 4}, Extent{33, 2, 3}, Extent{20, 1, 1}, Extent{48, 9, 9}}) {
    for (const Index batch : {1, 5, 20}) {
      INFO(extent.channels << " × " << extent.height << " × " << extent.width << ", batch " << batch);
      const LayerNormCase c(Shape{{extent.channels, 1, 1}, batch * extent.height * extent.width});
      const NormSpec spec{.extent = extent, .epsilon = c.spec.epsilon, .of_pixels = true};
      const Write write = batch == 5 ? Write::add : Write::overwrite;
      const Shape shape{extent, batch};
      in_all_layouts(
          [&](CpuBackend& backend) -> Outputs {
            const Buffer x = to_device(backend, shape, as_images(c.x, extent), 50);
            const Buffer dy = to_device(backend, shape, as_images(c.dy, extent));
            Buffer y = fresh(backend, shape), dx = fresh(backend, shape);
            Floats dgamma = c.before, dbeta = c.before, apart = c.before, beta_apart = c.before;
            backend.layer_norm_forward(spec, batch, x.view(), c.gamma, c.beta, y.view());
            backend.layer_norm_backward(spec, batch, x.view(), c.gamma, dy.view(), {}, apart, beta_apart, write);
            backend.layer_norm_backward(spec, batch, x.view(), c.gamma, dy.view(), dx.view(), dgamma, dbeta, write);
            CHECK(apart == dgamma);
            CHECK(beta_apart == dbeta);
            return {{as_images(from_device(backend, shape, y), extent, true),
                     as_images(from_device(backend, shape, dx), extent, true), dgamma, dbeta},
                    {}};
          },
          [&](const Outputs& outputs) { check_layer_norm(c, outputs, write); });
    }
  }
}

TEST_CASE("gradients of parameters and of inputs can be had apart", "[layer_norm]") {
  const LayerNormCase c(Shape{{3, 2, 1}, 5});
  CpuBackend backend({.threads = 2});
  const Outputs all = run_layer_norm(backend, c, Write::overwrite);
  const Block block = block_of(backend, c.spec.extent);
  const Buffer x = to_device(backend, c.shape(), c.x, 50), dy = to_device(backend, c.shape(), c.dy);
  Floats dgamma(6), dbeta(6);
  backend.layer_norm_backward(c.spec, c.batch, x.view(), stored(block, c.gamma), dy.view(), {}, dgamma, dbeta,
                              Write::overwrite);
  CHECK(canonical(block, dgamma) == all.tensors[2]);
  CHECK(canonical(block, dbeta) == all.tensors[3]);

  Buffer dx = fresh(backend, c.shape());
  backend.layer_norm_backward(c.spec, c.batch, x.view(), stored(block, c.gamma), dy.view(), dx.view(), {}, {},
                              Write::overwrite);
  CHECK(from_device(backend, c.shape(), dx) == all.tensors[1]);
}

TEST_CASE("an empty batch overwrites the gradients of layer normalisation with zero, or adds none", "[layer_norm]") {
  const LayerNormCase c(Shape{{3, 2, 1}, 0});
  in_all_layouts([&](CpuBackend& backend) { return run_layer_norm(backend, c, Write::overwrite); },
                 [&](const Outputs& outputs) { CHECK(outputs.tensors[2] == Floats(6, 0.0F)); });
  in_all_layouts([&](CpuBackend& backend) { return run_layer_norm(backend, c, Write::add); },
                 [&](const Outputs& outputs) { CHECK(outputs.tensors[3] == c.before); });
}

TEST_CASE("each example has mean 0 and deviation 1 of its own", "[layer_norm]") {
  // 1, 3 and 10, 30: both become −1, 1 (as ε is nothing beside the variances 1 and 100); γ = 2 and 3, β = 0 and 1.
  const NormSpec spec{{2, 1, 1}, 0, Activation::none};
  const Shape shape{spec.extent, 2};
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    Buffer y = fresh(backend, shape);
    const Floats gamma{2, 3}, beta{0, 1};
    // Lanes without an example hold one value, and with ε = 0 their deviation is 0: what they become must not matter.
    backend.layer_norm_forward(spec, 2, to_device(backend, shape, Floats{1, 3, 10, 30}).view(), gamma, beta, y.view());
    CHECK(from_device(backend, shape, y) == Floats{-2, 4, -2, 4});
  }
}

}  // namespace unisono::kernels::cpu
