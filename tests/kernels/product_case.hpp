#pragma once

#include <functional>

#include "cpu_fixture.hpp"
#include "reference_product.hpp"
#include "square_kernel.hpp"
#include "unisono/tensor/layout.hpp"

// A dense layer or a convolution with its values, run forward and backward on a device and checked against the
// reference.

namespace unisono::kernels::cpu {

/// What a test of a product varies beside its spec.
struct ProductOptions {
  Index batch = 1;
  bool bias = true;
  Write write = Write::overwrite;
};

/// All values are canonical. Gradients with respect to outputs are given where y is positive, too, so that relu's mask
/// matters.
struct ProductCase {
  ConvolutionSpec spec;
  ProductOptions options;
  Floats x, w, b, y, dy, dw, db;  // y: what the backward pass is told that forward gave; dw, db: what is there before

  ProductCase(const ConvolutionSpec& convolution, const ProductOptions& chosen)
      : spec(convolution),
        options(chosen),
        x(random_floats(options.batch * spec.in.size(), 1)),
        w(random_floats(weights(), 2)),
        b(random_floats(options.bias ? spec.channels : 0, 3)),
        y(random_floats(options.batch * spec.out().size(), 4)),
        dy(random_floats(options.batch * spec.out().size(), 5)),
        dw(random_floats(weights(), 6)),
        db(random_floats(options.bias ? spec.channels : 0, 7)) {}

  Index weights() const {
    return spec.channels * spec.in.channels / spec.groups * spec.kernel_height * spec.kernel_width;
  }
  Shape in() const { return {spec.in, options.batch}; }
  Shape out() const { return {spec.out(), options.batch}; }
  Block block(std::vector<int> axes) const {
    return {.name = "w",
            .shape = {spec.channels, spec.in.channels / spec.groups, spec.kernel_height, spec.kernel_width},
            .axes = std::move(axes)};
  }
};

/// What a layer of either kind is to the test: forward(x, w, b, y) and backward(x, w, y, dy, dx, dw, db).
struct ProductLayer {
  std::vector<int> axes;
  std::function<void(View, View, View, MutableView)> forward;
  std::function<void(View, View, View, MutableView, MutableView, MutableView, MutableView)> backward;
};

inline ProductLayer convolution_layer(CpuBackend& backend, const ProductCase& c) {
  return {
      backend.convolution_weight_axes(),
      [&](View x, View w, View b, MutableView y) { backend.convolution_forward(c.spec, c.options.batch, x, w, b, y); },
      [&](View x, View w, View y, MutableView dy, MutableView dx, MutableView dw, MutableView db) {
        backend.convolution_backward(c.spec, c.options.batch, x, w, y, dy, dx, dw, db, c.options.write);
      }};
}

inline ProductLayer dense_layer(CpuBackend& backend, const ProductCase& c) {
  const DenseSpec spec{c.spec.in, c.spec.channels, c.spec.activation};
  return {backend.dense_weight_axes(),
          [&backend, &c, spec](View x, View w, View b, MutableView y) {
            backend.dense_forward(spec, c.options.batch, x, w, b, y);
          },
          [&backend, &c, spec](View x, View w, View y, MutableView dy, MutableView dx, MutableView dw, MutableView db) {
            backend.dense_backward(spec, c.options.batch, x, w, y, dy, dx, dw, db, c.options.write);
          }};
}

/// \returns y, masked dy, dx, dw, db in canonical order
inline Outputs run(CpuBackend& backend, const ProductCase& c, const ProductLayer& layer) {
  const Block block = c.block(layer.axes);
  Buffer w(c.weights()), dw(c.weights());
  from_canonical(block, c.w, w.view());
  from_canonical(block, c.dw, dw.view());
  Floats db = c.db;
  const Buffer x = to_device(backend, c.in(), c.x, 3), given_y = to_device(backend, c.out(), c.y, 1);
  Buffer y = fresh(backend, c.out()), dy = to_device(backend, c.out(), c.dy), dx = fresh(backend, c.in());
  layer.forward(x.view(), w.view(), c.b, y.view());
  layer.backward(x.view(), w.view(), given_y.view(), dy.view(), dx.view(), dw.view(), db);
  CHECK(std::isfinite(largest_unused(backend, c.out(), y.view())));
  CHECK(largest_unused(backend, c.in(), dx.view()) == 0);
  Floats canonical(static_cast<std::size_t>(c.weights()));
  to_canonical(block, dw.view(), canonical);
  return {{from_device(backend, c.out(), y), from_device(backend, c.out(), dy), from_device(backend, c.in(), dx),
           canonical, db},
          {}};
}

/// What `run` should give, or, for the absolute values of all inputs, Σ |terms| of each of these sums.
inline std::vector<std::vector<double>> expected(const ProductCase& c, bool magnitudes) {
  const auto values = [magnitudes](View floats) {
    auto wide = widen(floats);
    if (magnitudes) std::for_each(wide.begin(), wide.end(), [](double& value) { value = std::abs(value); });
    return wide;
  };
  const bool relu = c.spec.activation == Activation::relu;
  auto dy = values(c.dy), y = reference::convolution(c.spec, c.options.batch, values(c.x), values(c.w), values(c.b));
  for (std::size_t i = 0; relu && i < y.size(); ++i) {
    y[i] = std::max(y[i], 0.0);
    if (c.y[i] <= 0) dy[i] = 0;
  }
  auto gradients = reference::convolution_gradients(c.spec, c.options.batch, values(c.x), values(c.w), dy);
  if (c.options.write == Write::add) {
    const auto old_dw = values(c.dw), old_db = values(c.db);
    for (std::size_t i = 0; i < old_dw.size(); ++i) gradients.dw[i] += old_dw[i];
    for (std::size_t i = 0; i < old_db.size(); ++i) gradients.db[i] += old_db[i];
  }
  if (!c.options.bias) gradients.db.clear();
  return {y, dy, gradients.dx, gradients.dw, gradients.db};
}

/// What all instruction sets and layouts are compared with.
struct ProductReference {
  std::vector<std::vector<double>> values, sizes;

  explicit ProductReference(const ProductCase& c) : values(expected(c, false)), sizes(expected(c, true)) {}
};

/// A sum of n products errs by at most (n + 1) u Σ |terms|, in any order (Higham, Accuracy and Stability of Numerical
/// Algorithms, 3.1); three more for the bias, what was there before, and the lanes that no example is in.
inline void check(const ProductCase& c, const ProductReference& reference, const Outputs& outputs) {
  const Index taps = c.spec.kernel_height * c.spec.kernel_width,
              positions = c.out().extent.height * c.out().extent.width;
  const Index terms[] = {taps * c.spec.in.channels / c.spec.groups, 0, taps * c.spec.channels / c.spec.groups,
                         positions * c.options.batch, positions * c.options.batch};
  for (std::size_t t = 0; t < reference.values.size(); ++t) {
    INFO("tensor " << t << " of y, dy, dx, dw, db");
    const double roundings = terms[t] == 0 ? 0 : static_cast<double>(terms[t] + 4);
    CHECK(excess(outputs.tensors[t], reference.values[t],
                 [&](std::size_t i) { return roundings * kRoundoff * reference.sizes[t][i]; }) <= 1);
  }
}

}  // namespace unisono::kernels::cpu
