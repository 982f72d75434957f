// Elementwise kernels on activations. Bytes per element: 2 or 4 for each value read or written.
#include <cassert>

#include "cuda/grid.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr float kInverseRoot2 = 0.70710678F, kInverseRoot2Pi = 0.39894228F;

__device__ float activated(Activation activation, float x, float a = 0) {
  switch (activation) {
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return 0.5F * x * (1 + erff(kInverseRoot2 * x));
    case Activation::tanh:
      return tanhf(x);
    case Activation::sigmoid:
      return 1 / (1 + expf(-x));
    case Activation::silu:
      return x / (1 + expf(-x));
    case Activation::leaky_relu:
      return x > 0 ? x : a * x;
    case Activation::elu:
      return x > 0 ? x : a * expm1f(x);
    case Activation::softplus:
      return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x)));
    default:
      return x;
  }
}

/// Derivatives: of GELU and SiLU from x, of the others from y.
__device__ float slope(Activation activation, float a, float x, float y) {
  switch (activation) {
    case Activation::relu:
      return y > 0 ? 1 : 0;
    case Activation::gelu:
      return 0.5F * (1 + erff(kInverseRoot2 * x)) + x * kInverseRoot2Pi * expf(-0.5F * x * x);
    case Activation::tanh:
      return 1 - y * y;
    case Activation::sigmoid:
      return y * (1 - y);
    case Activation::silu: {
      const float s = 1 / (1 + expf(-x));
      return s + x * s * (1 - s);
    }
    case Activation::leaky_relu:
      return y > 0 ? 1 : a;
    case Activation::elu:
      return y > 0 ? 1 : y + a;
    case Activation::softplus:
      return -expm1f(-y);
    default:
      return 1;
  }
}

template <typename T, int kValues>
__global__ void activate(Activation activation, float a, std::int64_t packs, const Pack<T, kValues>* x,
                         Pack<T, kValues>* y) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    Pack<T, kValues> own = x[i];
    for (T& value : own.values) value = rounded_to<T>(activated(activation, to_float(value), a));
    y[i] = own;
  }
}

template <typename T, int kValues>
__global__ void activate_backward(Activation activation, float a, std::int64_t packs, const Pack<T, kValues>* x,
                                  const Pack<T, kValues>* y, const Pack<T, kValues>* dy, Pack<T, kValues>* dx) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const Pack<T, kValues> none{}, at_x = x == nullptr ? none : x[i], at_y = y == nullptr ? none : y[i];
    Pack<T, kValues> gradient = dy[i];
    for (int j = 0; j < kValues; ++j) {
      const float factor = slope(activation, a, to_float(at_x.values[j]), to_float(at_y.values[j]));
      gradient.values[j] = rounded_to<T>(to_float(gradient.values[j]) * factor);
    }
    dx[i] = gradient;
  }
}

template <typename T, int kValues>
__global__ void add_to(std::int64_t packs, const Pack<T, kValues>* x, Pack<T, kValues>* y) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const Pack<T, kValues> own = x[i];
    Pack<T, kValues> sum = y[i];
    for (int j = 0; j < kValues; ++j) {
      sum.values[j] = rounded_to<T>(to_float(sum.values[j]) + to_float(own.values[j]));
    }
    y[i] = sum;
  }
}

template <typename T>
__global__ void add_bias_and_activate(std::int64_t n, std::int64_t channels, const float* b, Activation activation,
                                      T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    y[i] = rounded_to<T>(activated(activation, to_float(y[i]) + (b == nullptr ? 0 : b[i % channels])));
  }
}

template <typename From, typename To>
__global__ void convert(std::int64_t n, const From* from, To* to, bool adds) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    to[i] = rounded_to<To>(to_float(from[i]) + (adds ? to_float(to[i]) : 0));
  }
}

}  // namespace

Grid CudaBackend::grid_for(Index elements) const {
  constexpr Index kBlocksOfMultiprocessor = 8;
  const Index most = device_.multiprocessors() * kBlocksOfMultiprocessor;
  return {.blocks = static_cast<unsigned>(std::min<Index>(most, blocks_for(elements, kBlock))), .threads = kBlock};
}

void CudaBackend::activation_forward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                     MutableView y) {
  const Index n = batch * extent.size();
  with_packs(n, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(activate<T, kValues>, grid_for(n / kValues), activation.kind, activation.number, n / kValues,
                   values_of<Values>(x), values_of<Values>(y));
  });
}

void CudaBackend::activation_backward(const ActivationSpec& activation, const Extent& extent, Index batch, View x,
                                      View y, View dy, MutableView dx) {
  const Index n = batch * extent.size();
  with_packs(n, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(activate_backward<T, kValues>, grid_for(n / kValues), activation.kind, activation.number,
                   n / kValues, values_of<Values>(x), values_of<Values>(y), values_of<Values>(dy),
                   values_of<Values>(dx));
  });
}

void CudaBackend::add(const Extent& extent, Index batch, View x, MutableView y) {
  const Index n = batch * extent.size();
  with_packs(n, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(add_to<T, kValues>, grid_for(n / kValues), n / kValues, values_of<Values>(x), values_of<Values>(y));
  });
}

void CudaBackend::add_bias(Index rows, Index channels, View b, Activation activation, MutableView y) {
  if (b.empty() && activation == Activation::none) return;
  const Index n = rows * channels;
  with_type([&]<typename T>(T) {
    queue().launch(add_bias_and_activate<T>, grid_for(n), n, channels, b.data(), activation, values_of<T>(y));
  });
}

void CudaBackend::begin_pass(View parameters) {
  if (!stores_halves(precision_)) return;
  parameters_ = parameters;
  const auto n = static_cast<Index>(parameters.size());
  queue().launch(convert<float, Half>, grid_for(n), n, parameters.data(), rounded_.take<Half>(n), false);
}

const void* CudaBackend::rounded(View parameters) {
  if (!stores_halves(precision_)) return parameters.data();
  const std::ptrdiff_t first = parameters.data() - parameters_.data();
  assert(first >= 0 && first + std::ssize(parameters) <= std::ssize(parameters_));
  return rounded_.take<Half>(std::ssize(parameters_)) + first;
}

void CudaBackend::take_gradient(const void* result, bool floats, MutableView gradient, Write write) {
  const auto n = static_cast<Index>(gradient.size());
  const bool adds = write == Write::add;
  if (floats || !stores_halves(precision_)) {
    queue().launch(convert<float, float>, grid_for(n), n, static_cast<const float*>(result), gradient.data(), adds);
  } else {
    queue().launch(convert<Half, float>, grid_for(n), n, static_cast<const Half*>(result), gradient.data(), adds);
  }
}

}  // namespace unisono::kernels::cuda
