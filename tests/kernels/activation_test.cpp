#include "cpu_fixture.hpp"

namespace unisono::kernels::cpu {
namespace {

const ActivationSpec kAll[] = {Activation::none,
                               Activation::relu,
                               Activation::gelu,
                               Activation::tanh,
                               Activation::sigmoid,
                               Activation::silu,
                               {Activation::leaky_relu, 0.125F},
                               {Activation::elu, 1},
                               {Activation::elu, 0.75F},
                               Activation::softplus,
                               Activation::gelu_tanh};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// √(8/π) (x + 0.044715 x³)
double twice_tanh_argument(double x) { return std::sqrt(8 / std::acos(-1.0)) * (x + 0.044715 * x * x * x); }

double value(const ActivationSpec& activation, double x) {
  switch (activation.kind) {
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::silu:
      return x * sigmoid(x);
    case Activation::leaky_relu:
      return x > 0 ? x : static_cast<double>(activation.number) * x;
    case Activation::elu:
      return x > 0 ? x : static_cast<double>(activation.number) * std::expm1(x);
    case Activation::softplus:
      return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Activation::gelu_tanh:
      return x * sigmoid(twice_tanh_argument(x));
    default:
      return x;
  }
}

double slope(const ActivationSpec& activation, double x) {
  switch (activation.kind) {
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu:
      return 0.5 * std::erfc(-x * std::sqrt(0.5)) + x * std::exp(-x * x / 2) / std::sqrt(2 * std::acos(-1.0));
    case Activation::tanh:
      return 1 - std::pow(std::tanh(x), 2);
    case Activation::sigmoid:
      return value(activation, x) * (1 - value(activation, x));
    case Activation::silu:
      return sigmoid(x) * (1 + x * sigmoid(-x));
    case Activation::leaky_relu:
      return x > 0 ? 1 : static_cast<double>(activation.number);
    case Activation::elu:
      return x > 0 ? 1 : static_cast<double>(activation.number) * std::exp(x);
    case Activation::softplus:
      return sigmoid(x);
    case Activation::gelu_tanh: {
      const double v = twice_tanh_argument(x);
      return sigmoid(v) + x * std::sqrt(8 / std::acos(-1.0)) * (1 + 3 * 0.044715 * x * x) * sigmoid(v) * sigmoid(-v);
    }
    default:
      return 1;
  }
}

}  // namespace

TEST_CASE("activations and their gradients are the reference's, in place, too", "[long][activation][shapes]") {
  for (const Shape& shape : odd_shapes()) {
    INFO(shape.text());
    const Floats x = random_floats(shape.size(), 41, -6, 6), dy = random_floats(shape.size(), 42);
    for (const ActivationSpec& activation : kAll) {
      std::vector<double> y, dx;
      for (std::size_t i = 0; i < x.size(); ++i) {
        y.push_back(value(activation, static_cast<double>(x[i])));
        dx.push_back(static_cast<double>(dy[i]) * slope(activation, static_cast<double>(x[i])));
      }
      in_all_layouts(
          [&](CpuBackend& backend) {
            const Buffer device_x = to_device(backend, shape, x, 5);
            Buffer device_y = fresh(backend, shape), dx_apart = fresh(backend, shape);
            Buffer device_dy = to_device(backend, shape, dy);
            backend.activation_forward(activation, shape.extent, shape.batch, device_x.view(), device_y.view());
            backend.activation_backward(activation, shape.extent, shape.batch, device_x.view(), device_y.view(),
                                        device_dy.view(), dx_apart.view());
            backend.activation_backward(activation, shape.extent, shape.batch, device_x.view(), device_y.view(),
                                        device_dy.view(), device_dy.view());
            CHECK(largest_unused(backend, shape, dx_apart.view()) == 0);
            CHECK(from_device(backend, shape, dx_apart) == from_device(backend, shape, device_dy));
            return Outputs{{from_device(backend, shape, device_y), from_device(backend, shape, device_dy)}, {}};
          },
          [&](const Outputs& outputs) {
            // 9.5 ulps, as math_test.cpp holds them, are at most 19 u |y|. A derivative is at most 1.2: from y it errs
            // by 2 |y| times that (tanh, 1.4 ulps: 5.6 u), GELU's by 17 u and of x φ(x) ≤ 0.25 by 10 u; SiLU's by 5 u
            // of σ(x) and of x σ (1 − σ) ≤ 0.45 by 12 u; ELU's by 4 u, softplus' by 6 u of y e^−y ≤ 0.37 and 3 u.
            // In x σ(v) of GELU by tanh, v has 4 roundings and a constant's, and e^−|v| has their |v|-fold.
            CHECK(excess(outputs.tensors[0], y, [&](std::size_t i) {
                    const bool by_tanh = activation.kind == Activation::gelu_tanh;
                    const double v = by_tanh ? std::abs(twice_tanh_argument(static_cast<double>(x[i]))) : 0;
                    return (19 + 5 * v) * kRoundoff * std::abs(y[i]);
                  }) <= 1);
            CHECK(excess(outputs.tensors[1], dx,
                         [&](std::size_t i) { return 22 * kRoundoff * std::abs(static_cast<double>(dy[i])); }) <= 1);
          });
    }
  }
}

TEST_CASE("the reference's slopes are central differences", "[activation]") {
  for (const ActivationSpec& activation : kAll) {
    for (double x : {-3.0, -1.0, -0.5, 0.3, 2.0}) {
      const auto f = [&](const std::vector<double>& at) { return value(activation, at[0]); };
      CHECK(gradient_error(f, {x}, {slope(activation, x)}) < 1e-8);
    }
  }
}

TEST_CASE("a NaN passes every activation", "[activation]") {
  const Shape shape{{1, 1, 1}, 1};
  for (const ActivationSpec& activation : kAll) {
    for (InstructionSet set : available_instruction_sets()) {
      CpuBackend backend({.threads = 1, .instruction_set = set});
      Buffer y(16);
      const Buffer x = to_device(backend, shape, Floats{std::nanf("")});
      backend.activation_forward(activation, shape.extent, 1, x.view(), y.view());
      CHECK(std::isnan(y.data()[0]));
    }
  }
}

TEST_CASE("adding adds", "[activation]") {
  const Shape shape{{5, 3, 7}, 300};  // more than one chunk
  const Floats x = random_floats(shape.size(), 43), y = random_floats(shape.size(), 44);
  Floats sum(y);
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  in_all_layouts(
      [&](CpuBackend& backend) {
        Buffer device_y = to_device(backend, shape, y);
        backend.add(shape.extent, shape.batch, to_device(backend, shape, x).view(), device_y.view());
        return Outputs{{from_device(backend, shape, device_y)}, {}};
      },
      [&](const Outputs& outputs) { CHECK(outputs.tensors[0] == sum); });
}

}  // namespace unisono::kernels::cpu
