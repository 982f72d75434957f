#include "cpu_fixture.hpp"
#include "reference_sequences.hpp"

namespace unisono::kernels::cpu {
namespace {

/// One batch through both passes, of rows of C values.
struct RmsNormCase {
  NormSpec spec;
  Index batch;
  Floats x, dy, gamma, before;  ///< before: what the gradient of gamma holds

  RmsNormCase(Index units, Index batch_)
      : spec{{units, 1, 1}, 1e-5F},
        batch(batch_),
        x(random_floats(shape().size(), 21)),
        dy(random_floats(shape().size(), 22)),
        gamma(random_floats(units, 23, 0.5F, 1.5F)),
        before(random_floats(units, 24)) {}
  Shape shape() const { return {spec.extent, batch}; }
};

Outputs run_rms_norm(CpuBackend& backend, const RmsNormCase& c, Write write) {
  const Buffer x = to_device(backend, c.shape(), c.x, 50), dy = to_device(backend, c.shape(), c.dy);
  Buffer y = fresh(backend, c.shape()), dx = fresh(backend, c.shape()), alone = fresh(backend, c.shape());
  Floats dgamma = c.before, apart = c.before;
  backend.rms_norm_forward(c.spec, c.batch, x.view(), c.gamma, y.view());
  backend.rms_norm_backward(c.spec, c.batch, x.view(), c.gamma, dy.view(), dx.view(), dgamma, write);
  backend.rms_norm_backward(c.spec, c.batch, x.view(), c.gamma, dy.view(), alone.view(), {}, write);
  backend.rms_norm_backward(c.spec, c.batch, x.view(), c.gamma, dy.view(), {}, apart, write);
  CHECK(std::isfinite(largest_unused(backend, c.shape(), y.view())));
  CHECK(largest_unused(backend, c.shape(), dx.view()) == 0);
  CHECK(from_device(backend, c.shape(), alone) == from_device(backend, c.shape(), dx));
  CHECK(apart == dgamma);
  return {{from_device(backend, c.shape(), y), from_device(backend, c.shape(), dx), dgamma}, {}};
}

// The mean of squares has 34 roundings (runs of 32 in float, the rest in double), its inverse root half of them and
// two, so that x̂ errs by 21 u |x̂|. Values of dy are below 1, of γ below 1.5.
void check_rms_norm(const RmsNormCase& c, const Outputs& outputs, Write write) {
  const auto x = widen(c.x), gamma = widen(c.gamma), dy = widen(c.dy);
  const auto y = reference::rms_norm(x, gamma, c.spec.epsilon);
  CHECK(excess(outputs.tensors[0], y, [&](std::size_t i) { return 22 * kRoundoff * std::abs(y[i]); }) <= 1);

  const reference::Values ones(gamma.size(), 1.0);
  const auto normal = reference::rms_norm(x, ones, c.spec.epsilon);
  reference::Values dgamma(gamma.size()), bound(gamma.size(), 2 * kRoundoff);
  const auto dx = reference::rms_norm_backward(x, gamma, c.spec.epsilon, dy, dgamma);
  // inverse (d − x̂ m), m = mean d x̂: |d| and |m| ≤ 1.5, for the mean of |x̂| ≤ 1; m errs by 34 + 21 roundings, the
  // second term by 21 more and 2 products, and all by 21 of the inverse root.
  CHECK(excess(outputs.tensors[1], dx, [&](std::size_t i) {
          const double inverse = x[i] == 0 ? 400 : normal[i] / x[i];
          return 1.5 * kRoundoff * inverse * (24 + (34 + 21 + 21 + 24) * std::abs(normal[i]));
        }) <= 1);

  for (std::size_t i = 0; i < x.size(); ++i) bound[i % bound.size()] += 27 * kRoundoff * std::abs(normal[i]);  // 4 sums
  for (std::size_t e = 0; e < dgamma.size() && write == Write::add; ++e) {
    dgamma[e] += static_cast<double>(c.before[e]);
  }
  CHECK(excess(outputs.tensors[2], dgamma, [&](std::size_t e) { return bound[e] + kRoundoff * std::abs(dgamma[e]); }) <=
        1);
}

}  // namespace

TEST_CASE("RMS normalisation gives the reference's outputs and gradients", "[rms_norm]") {
  for (const Index batch : kBatches) {
    for (const Index units : {1, 3, 16, 100}) {
      INFO(batch << " × " << units);
      const RmsNormCase c(units, batch);
      const Write write = batch % 2 == 0 ? Write::overwrite : Write::add;
      everywhere([&](CpuBackend& backend) { return run_rms_norm(backend, c, write); },
                 [&](const Outputs& outputs) { check_rms_norm(c, outputs, write); });
    }
  }
}

TEST_CASE("an empty batch overwrites the gradient of RMS normalisation with zero, or adds none", "[rms_norm]") {
  const RmsNormCase c(3, 0);
  everywhere([&](CpuBackend& backend) { return run_rms_norm(backend, c, Write::overwrite); },
             [&](const Outputs& outputs) { CHECK(outputs.tensors[2] == Floats(3, 0.0F)); });
  everywhere([&](CpuBackend& backend) { return run_rms_norm(backend, c, Write::add); },
             [&](const Outputs& outputs) { CHECK(outputs.tensors[2] == c.before); });
}

TEST_CASE("RMS normalisation by hand", "[rms_norm]") {
  // The mean square of (3, −4, 0, 5) is 12.5: with γ = √12.5, y is x.
  CpuBackend backend({});
  const Shape shape{{4, 1, 1}, 1};
  Buffer y = fresh(backend, shape);
  backend.rms_norm_forward({shape.extent, 0}, 1, to_device(backend, shape, Floats{3, -4, 0, 5}).view(),
                           Floats(4, std::sqrt(12.5F)), y.view());
  const Floats values = from_device(backend, shape, y);
  CHECK(values[0] == Approx(3));
  CHECK(values[1] == Approx(-4));
  CHECK(values[2] == 0);
  CHECK(values[3] == Approx(5));
}

}  // namespace unisono::kernels::cpu
