#include "cpu_fixture.hpp"
#include "reference_norm.hpp"

namespace unisono::kernels::cpu {
namespace {

using reference::Over;

Floats narrow(const std::vector<double>& values) { return {values.begin(), values.end()}; }

/// One batch through all four passes. Canonical order.
struct BatchNormCase {
  NormSpec spec;
  Index batch;
  Floats x, residual, y, dy, gamma, beta, mean, inverse;  // y: what the backward pass is told that forward gave
  reference::Statistics statistics;                       // as the device is told: rounded to float

  BatchNormCase(const Shape& shape, Activation activation, bool with_residual)
      : spec{.extent = shape.extent, .epsilon = 1e-5F, .activation = activation, .adds_residual = with_residual},
        batch(shape.batch),
        x(random_floats(shape.size(), 11, -1, 3)),
        residual(with_residual ? random_floats(shape.size(), 12) : Floats{}),
        y(random_floats(shape.size(), 13)),
        dy(random_floats(shape.size(), 14)),
        gamma(random_floats(shape.extent.channels, 15, 0.5F, 1.5F)),
        beta(random_floats(shape.extent.channels, 16)) {
    statistics = reference::statistics(Over::channel, spec, batch, widen(x));
    mean = narrow(statistics.mean);
    inverse = narrow(statistics.inverse);
    statistics.mean = widen(mean);
    statistics.inverse = widen(inverse);
  }
  Shape shape() const { return {spec.extent, batch}; }
  bool masks_by_input() const { return spec.relu_mask() == ReluMask::from_input; }
  bool relu() const { return spec.activation == Activation::relu; }
  NormTerms terms() const { return {mean, inverse, gamma, beta}; }
  std::size_t channel(std::size_t i) const { return reference::group_of(Over::channel, spec.extent, i); }
};

Outputs run_batch_norm(CpuBackend& backend, const BatchNormCase& c, bool constant_statistics = false) {
  const Shape shape = c.shape();
  const auto channels = static_cast<std::size_t>(c.spec.extent.channels);
  const Buffer x = to_device(backend, shape, c.x, 1e3F), given_y = to_device(backend, shape, c.y, 1);
  Buffer residual;
  if (!c.residual.empty()) residual = to_device(backend, shape, c.residual, 7);
  Buffer y = fresh(backend, shape), dx = fresh(backend, shape), dy = to_device(backend, shape, c.dy, 1e3F);
  std::vector<double> sums(2 * channels + 1, -1), gradient_sums(2 * channels + 1, -1);

  backend.batch_norm_sums(c.spec, c.batch, x.view(), sums);
  backend.batch_norm_forward(c.spec, c.batch, x.view(), c.terms(), residual.view(), y.view());
  backend.batch_norm_backward_sums(c.spec, c.batch, x.view(), c.terms(), given_y.view(), dy.view(), gradient_sums);
  CHECK(sums.back() == c.statistics.count);
  CHECK(gradient_sums.back() == c.statistics.count);
  if (constant_statistics) gradient_sums.back() = 0;
  backend.batch_norm_backward(c.spec, c.batch, x.view(), c.terms(), dy.view(), gradient_sums, dx.view());
  CHECK(std::isfinite(largest_unused(backend, shape, y.view())));
  CHECK(largest_unused(backend, shape, dx.view()) == 0);
  Outputs outputs{{from_device(backend, shape, y), from_device(backend, shape, dy), from_device(backend, shape, dx)},
                  sums};
  backend.batch_norm_backward(c.spec, c.batch, x.view(), c.terms(), dy.view(), gradient_sums, dy.view());
  CHECK(from_device(backend, shape, dy) == outputs.tensors[2]);  // in place
  outputs.sums.pop_back();
  outputs.sums.insert(outputs.sums.end(), gradient_sums.begin(), gradient_sums.end() - 1);
  return outputs;
}

/// A sum of floats, and how far the device's may be off. It adds up in float the lanes of a pixel (at most 16 vectors
/// of 4) and a tile's 32 pixels, and the rest in double: with two roundings in a term at most 50 u Σ |terms|.
struct Sum {
  double value = 0, size = 0;
  void add(double term, double term_size) { value += term, size += term_size; }
  bool near(double actual) const { return std::abs(actual - value) <= 50 * kRoundoff * size; }
};

/// Σ x, Σ x², Σ dy, Σ dy x̂ for each channel, in the order of Outputs::sums.
std::vector<Sum> expected_sums(const BatchNormCase& c, const std::vector<double>& dy) {
  const auto channels = static_cast<std::size_t>(c.spec.extent.channels);
  std::vector<Sum> sums(4 * channels);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t k = c.channel(i);
    const auto x = static_cast<double>(c.x[i]), inverse = c.statistics.inverse[k];
    sums[k].add(x, std::abs(x));
    sums[channels + k].add(x * x, x * x);
    sums[2 * channels + k].add(dy[i], std::abs(dy[i]));
    const double product = dy[i] * (x - c.statistics.mean[k]) * inverse;
    sums[3 * channels + k].add(product, std::abs(product));
  }
  return sums;
}

std::vector<double> expected_output(const BatchNormCase& c) {
  auto y =
      reference::norm_forward(Over::channel, c.spec.extent, c.statistics, widen(c.x), widen(c.gamma), widen(c.beta));
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (!c.residual.empty()) y[i] += static_cast<double>(c.residual[i]);
    if (c.relu() && y[i] < 0) y[i] = 0;
  }
  return y;
}

/// \param y what the forward pass gave: without a residual, its own sign decides
std::vector<double> masked_gradient(const BatchNormCase& c, const Floats& y) {
  auto dy = widen(c.dy);
  for (std::size_t i = 0; i < dy.size(); ++i) {
    if (c.relu() && (c.masks_by_input() ? y[i] : c.y[i]) <= 0) dy[i] = 0;
  }
  return dy;
}

void check_batch_norm(const BatchNormCase& c, const Outputs& outputs, bool constant_statistics = false) {
  // |x − mean| inverse γ is below 4 sizes of x times the largest inverse; four roundings of that and of what is added.
  double inverse = 1;
  for (double value : c.statistics.inverse) inverse = std::max(inverse, value);
  const auto dy = masked_gradient(c, outputs.tensors[0]);
  CHECK(excess(outputs.tensors[0], expected_output(c), 4 * kRoundoff * (4 * 1.5 * inverse + 2)) <= 1);
  CHECK(excess(outputs.tensors[1], c.masks_by_input() ? widen(c.dy) : dy, 0) == 0);
  const auto expected = expected_sums(c, dy);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(expected[i].near(outputs.sums[i]));

  const auto dx = reference::norm_backward(Over::channel, c.spec.extent, c.statistics, widen(c.x), widen(c.gamma), dy,
                                           constant_statistics)
                      .dx;
  // Five roundings of each of dy, Σ dy / count and x̂ Σ dy x̂ / count, and the error of these sums.
  const auto channels = static_cast<std::size_t>(c.spec.extent.channels);
  CHECK(excess(outputs.tensors[2], dx, [&](std::size_t i) {
          const std::size_t k = c.channel(i);
          const double normal = std::abs(static_cast<double>(c.x[i]) - c.statistics.mean[k]) * c.statistics.inverse[k];
          const double scale = static_cast<double>(c.gamma[k]) * c.statistics.inverse[k];
          const double means = expected[2 * channels + k].size + normal * expected[3 * channels + k].size;
          return kRoundoff * scale * (5 * std::abs(dy[i]) + 55 * means / c.statistics.count);
        }) <= 1);
}

}  // namespace

TEST_CASE("batch normalisation gives the reference's sums, outputs and gradients", "[long][batch_norm][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    for (Activation activation : {Activation::none, Activation::relu}) {
      const BatchNormCase c(shape, activation, activation == Activation::relu);
      in_all_layouts([&](CpuBackend& backend) { return run_batch_norm(backend, c); },
                     [&](const Outputs& outputs) { check_batch_norm(c, outputs); });
    }
  }
}

TEST_CASE("batch normalisation fuses a residual or a relu alone, too", "[batch_norm]") {
  for (Activation activation : {Activation::none, Activation::relu}) {
    const BatchNormCase c({{20, 7, 5}, 65}, activation, activation == Activation::none);
    in_all_layouts([&](CpuBackend& backend) { return run_batch_norm(backend, c); },
                   [&](const Outputs& outputs) { check_batch_norm(c, outputs); });
  }
}

TEST_CASE("with constant statistics no gradient flows through them", "[batch_norm]") {
  const BatchNormCase c({{3, 4, 4}, 17}, Activation::relu, false);
  in_all_layouts([&](CpuBackend& backend) { return run_batch_norm(backend, c, true); },
                 [&](const Outputs& outputs) { check_batch_norm(c, outputs, true); });
}

TEST_CASE("an example worked out by hand is normalised", "[batch_norm]") {
  // One channel of two examples, x = 1 and 3: Σ x = 4, Σ x² = 10; told mean 2 and inverse deviation 1, γ = 2, β = 1,
  // the outputs are −1 and 3, after relu 0 and 3. dy = 5 and 7: only the second passes, Σ dy = 7, Σ dy x̂ = 7; dx is
  // 2 (0 − (7 − 7) / 2) and 2 (7 − (7 + 7) / 2).
  const NormSpec spec{{1, 1, 1}, 1e-5F, Activation::relu};
  const Shape shape{spec.extent, 2};
  const Floats mean{2}, inverse{1}, gamma{2}, beta{1};
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    const Buffer x = to_device(backend, shape, Floats{1, 3}, 9);
    Buffer y = fresh(backend, shape), dx = fresh(backend, shape), dy = to_device(backend, shape, Floats{5, 7});
    std::vector<double> sums(3);
    backend.batch_norm_sums(spec, 2, x.view(), sums);
    CHECK(sums == std::vector<double>{4, 10, 2});
    backend.batch_norm_forward(spec, 2, x.view(), {mean, inverse, gamma, beta}, {}, y.view());
    CHECK(from_device(backend, shape, y) == Floats{0, 3});
    backend.batch_norm_backward_sums(spec, 2, x.view(), {mean, inverse, gamma, beta}, {}, dy.view(), sums);
    CHECK(sums == std::vector<double>{7, 7, 2});
    backend.batch_norm_backward(spec, 2, x.view(), {mean, inverse, gamma, beta}, dy.view(), sums, dx.view());
    CHECK(from_device(backend, shape, dx) == Floats{0, 0});
  }
}

TEST_CASE("the variance survives a mean thousands of deviations large", "[batch_norm]") {
  // In floats Σ x² / n − mean² would cancel all digits. What a tile sums are differences from one of its values: 32
  // pixels of some additions each, in floats, then doubles.
  const Shape shape{{1, 32, 32}, 64};
  for (float mean : {100.0F, 8192.0F}) {
    Floats x = random_floats(shape.size(), 17, -1.7320508F, 1.7320508F);  // variance 1
    for (float& value : x) value += mean;
    const auto exact = reference::statistics(Over::channel, {shape.extent, 0, Activation::none}, shape.batch, widen(x));
    in_all_layouts(
        [&](CpuBackend& backend) {
          Outputs outputs{{}, std::vector<double>(3)};
          backend.batch_norm_sums({shape.extent, 0, Activation::none}, shape.batch, to_device(backend, shape, x).view(),
                                  outputs.sums);
          return outputs;
        },
        [&](const Outputs& outputs) {
          const double found = outputs.sums[0] / exact.count;
          const double variance = outputs.sums[1] / exact.count - found * found;
          CHECK(variance == Approx(std::pow(exact.inverse[0], -2)).epsilon(64 * kRoundoff));
        });
  }
}

TEST_CASE("a NaN in an activation reaches the sums and passes relu", "[batch_norm]") {
  const NormSpec spec{{1, 1, 1}, 1e-5F, Activation::relu};
  const Shape shape{spec.extent, 2};
  const Floats mean{0}, inverse{1}, gamma{1}, beta{0};
  for (InstructionSet set : available_instruction_sets()) {
    CpuBackend backend({.threads = 1, .instruction_set = set});
    const Buffer x = to_device(backend, shape, Floats{1, std::nanf("")});
    Buffer y(x.size());
    std::vector<double> sums(3);
    backend.batch_norm_sums(spec, 2, x.view(), sums);
    backend.batch_norm_forward(spec, 2, x.view(), {mean, inverse, gamma, beta}, {}, y.view());
    CHECK(std::isnan(sums[0]));
    CHECK(std::isnan(sums[1]));
    CHECK(std::isnan(y.data()[1]));
  }
}

TEST_CASE("moments are made of sums, and running values follow them", "[batch_norm]") {
  // Two channels of four values: 1, 3, 1, 3 has mean 2 and variance 1, unbiased 4/3; 5, 5, 5, 5 has mean 5 and 0.
  const NormSpec spec{{2, 1, 1}, 3, Activation::none};
  CpuBackend backend({});
  const std::vector<double> sums = {8, 20, 20, 100, 4};
  Floats running_mean{4, 1}, running_variance{1, 2}, mean(2), inverse(2);
  backend.batch_norm_moments(spec, sums, 0.25, running_mean, running_variance, mean, inverse);
  CHECK(mean == Floats{2, 5});
  CHECK(inverse[0] == 0.5F);                                         // 1 / √(1 + 3)
  CHECK(inverse[1] == static_cast<float>(1 / std::sqrt(3.0)));       // 1 / √(0 + 3)
  CHECK(running_mean == Floats{3.5F, 2});                            // ¾ · 4 + ¼ · 2, ¾ · 1 + ¼ · 5
  CHECK(running_variance[0] == static_cast<float>(0.75 + 1 / 3.0));  // ¾ · 1 + ¼ · 4/3
  CHECK(running_variance[1] == 1.5F);                                // ¾ · 2 + ¼ · 0

  // A single value has no variance, and none leaves all as it is.
  backend.batch_norm_moments(spec, std::vector<double>{6, 5, 36, 25, 1}, 0.5, running_mean, running_variance, mean,
                             inverse);
  CHECK(mean == Floats{6, 5});
  CHECK(running_variance[1] == 0.75F);
  const Floats before = running_mean;
  backend.batch_norm_moments(spec, std::vector<double>(5, 0.0), 0.5, running_mean, running_variance, mean, inverse);
  CHECK(mean == Floats{6, 5});
  CHECK(running_mean == before);
}

TEST_CASE("moments without running values, and running values without moments", "[batch_norm]") {
  const NormSpec spec{{2, 1, 1}, 3, Activation::none};
  CpuBackend backend({});
  const std::vector<double> sums = {8, 20, 20, 100, 4};
  Floats running_mean{4, 1}, running_variance{1, 2}, mean(2), inverse(2);
  backend.batch_norm_moments(spec, sums, 0.25, {}, {}, mean, inverse);
  CHECK(mean == Floats{2, 5});
  CHECK(inverse[0] == 0.5F);
  backend.batch_norm_moments(spec, sums, 0.25, running_mean, running_variance, {}, {});
  CHECK(running_mean == Floats{3.5F, 2});
  CHECK(running_variance[1] == 1.5F);
}

TEST_CASE("without training the running values are the moments", "[batch_norm]") {
  const NormSpec spec{{2, 3, 3}, 1, Activation::none};
  CpuBackend backend({});
  Floats mean(2), inverse(2);
  backend.batch_norm_running_moments(spec, Floats{7, -2}, Floats{3, 0}, mean, inverse);
  CHECK(mean == Floats{7, -2});
  CHECK(inverse == Floats{0.5F, 1});
}

TEST_CASE("gradients of gamma and beta are sums of this rank's own", "[batch_norm]") {
  const NormSpec spec{{2, 1, 1}, 1e-5, Activation::none};
  CpuBackend backend({});
  const std::vector<double> sums = {1, 2, 3, 4, 9};
  Floats dgamma{50, 60}, dbeta{70, 80};
  backend.batch_norm_parameter_gradients(spec, sums, dgamma, dbeta, Write::overwrite);
  CHECK(dbeta == Floats{1, 2});
  CHECK(dgamma == Floats{3, 4});
  backend.batch_norm_parameter_gradients(spec, sums, dgamma, dbeta, Write::add);
  CHECK(dbeta == Floats{2, 4});
  CHECK(dgamma == Floats{6, 8});
}

TEST_CASE("sums over no examples are zero, whatever the memory holds", "[batch_norm]") {
  const NormSpec spec{{3, 2, 2}, 1e-5, Activation::relu};
  const Shape none{spec.extent, 0};
  CpuBackend backend({});
  const Buffer x = fresh(backend, none), y = fresh(backend, none);
  Buffer dy = fresh(backend, none);
  const Floats mean(3), inverse(3);
  std::vector<double> sums(7, -1), gradient_sums(7, -1);
  backend.batch_norm_sums(spec, 0, x.view(), sums);
  backend.batch_norm_backward_sums(spec, 0, x.view(), {mean, inverse, mean, mean}, y.view(), dy.view(), gradient_sums);
  CHECK(sums == std::vector<double>(7, 0.0));
  CHECK(gradient_sums == std::vector<double>(7, 0.0));
}

TEST_CASE("the reference's gradients of normalisation are central differences", "[batch_norm][layer_norm]") {
  const NormSpec spec{{2, 2, 3}, 1e-2F, Activation::none};
  const Index batch = 3;
  const auto x = widen(random_floats(batch * 12, 18)), dy = widen(random_floats(batch * 12, 19));
  for (Over over : {Over::channel, Over::example}) {
    const Index parameters = over == Over::channel ? 2 : 12;
    const auto gamma = widen(random_floats(parameters, 20)), beta = widen(random_floats(parameters, 21));
    const auto f = [&](const auto& at_x, const auto& at_gamma, const auto& at_beta) {
      const auto s = reference::statistics(over, spec, batch, at_x);
      return dot(dy, reference::norm_forward(over, spec.extent, s, at_x, at_gamma, at_beta));
    };
    const auto s = reference::statistics(over, spec, batch, x);
    const auto gradient = reference::norm_backward(over, spec.extent, s, x, gamma, dy);
    CHECK(gradient_error([&](const auto& at) { return f(at, gamma, beta); }, x, gradient.dx) < 1e-7);
    CHECK(gradient_error([&](const auto& at) { return f(x, at, beta); }, gamma, gradient.dgamma) < 1e-9);
    CHECK(gradient_error([&](const auto& at) { return f(x, gamma, at); }, beta, gradient.dbeta) < 1e-9);
  }
}

}  // namespace unisono::kernels::cpu
