#include "cpu/loops_isa/math.hpp"
#include "cpu/loops_isa/table.hpp"

// GELU is the exact one, x Φ(x) with the normal distribution function Φ (Hendrycks & Gimpel 2016), not its tanh
// approximation: y' = Φ(x) + x φ(x), φ the normal density. SiLU is x σ(x) (Elfwing et al. 2018), y' = σ + x σ (1 − σ).

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr float kInverseRootTwoPi = 0x1.988454p-2F;

template <typename Function>
void map(const float* x, float* y, Count n, Function function) {
#pragma omp simd
  for (Count i = 0; i < n; ++i) y[i] = function(x[i]);
}

void forward(Activation activation, float a, const float* x, float* y, Count n) {
  switch (activation) {
    case Activation::none:
      return map(x, y, n, [](float v) { return v; });
    case Activation::relu:
      return map(x, y, n, [](float v) { return 0.0F > v ? 0.0F : v; });  // NaN stays
    case Activation::gelu:
      return map(x, y, n, [](float v) { return v * normal_distribution(v, bell(v)); });
    case Activation::tanh:
      return map(x, y, n, hyperbolic_tangent);
    case Activation::sigmoid:
      return map(x, y, n, logistic);
    case Activation::silu:
      return map(x, y, n, [](float v) { return v * logistic(v); });
    case Activation::leaky_relu:
      return map(x, y, n, [a](float v) { return v > 0.0F ? v : a * v; });
    case Activation::elu:
      return map(x, y, n, [a](float v) { return v > 0.0F ? v : a * exponential_less_one(v); });
    case Activation::softplus:
      return map(x, y, n, [](float v) { return (v < 0.0F ? 0.0F : v) + softplus_tail(v); });
  }
}

/// dx = dy · derivative(v); v is x or y, whichever the derivative is simpler in
template <typename Derivative>
void chain(const float* v, const float* dy, float* dx, Count n, Derivative derivative) {
#pragma omp simd
  for (Count i = 0; i < n; ++i) dx[i] = dy[i] * derivative(v[i]);
}

float gelu_derivative(float x) {
  const float b = bell(x);
  return normal_distribution(x, b) + x * b * kInverseRootTwoPi;
}

float silu_derivative(float x) {
  const float s = logistic(x);
  return s + x * s * (1.0F - s);
}

void backward(Activation activation, float a, const float* v, const float* dy, float* dx, Count n) {
  switch (activation) {
    case Activation::none:
      return chain(dy, dy, dx, n, [](float) { return 1.0F; });
    case Activation::relu:
      return chain(v, dy, dx, n, [](float y) { return y > 0.0F ? 1.0F : 0.0F; });
    case Activation::gelu:
      return chain(v, dy, dx, n, gelu_derivative);
    case Activation::tanh:
      return chain(v, dy, dx, n, [](float y) { return 1.0F - y * y; });
    case Activation::sigmoid:
      return chain(v, dy, dx, n, [](float y) { return y * (1.0F - y); });
    case Activation::silu:
      return chain(v, dy, dx, n, silu_derivative);
    case Activation::leaky_relu:
      return chain(v, dy, dx, n, [a](float y) { return y > 0.0F ? 1.0F : a; });
    case Activation::elu:
      return chain(v, dy, dx, n, [a](float y) { return y > 0.0F ? 1.0F : y + a; });
    case Activation::softplus:
      return chain(v, dy, dx, n, [](float y) { return -exponential_less_one(-y); });  // σ(x) = 1 − e^−y
  }
}

}  // namespace

void add_activation(Loops& loops) { loops.activation = {forward, backward}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
