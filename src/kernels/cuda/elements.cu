#include <cassert>

#include "cuda/column_sums.hpp"
#include "cuda/device_code.hpp"
#include "cuda/dropout_mask.hpp"

// Elementwise kernels on activations. Bytes per element: 2 or 4 for each value read or written.
namespace unisono::kernels::cuda {
namespace {

constexpr float kInverseRoot2 = 0.70710678F, kInverseRoot2Pi = 0.39894228F;
constexpr float kTanhLinear = 1.59576912F, kTanhCubic = 0.0713548163F;  // √(8/π), and that times 0.044715

/// GELU by tanh is x σ(v), v = √(8/π) (x + 0.044715 x³). σ(|v|) and σ(−|v|) have no rounding of a difference from 1.
struct TanhGate {
  float size, above, below;  // |x|, at most 16; σ(|v|), σ(−|v|)

  __device__ explicit TanhGate(float x) : size(fabsf(x) > 16 ? 16 : fabsf(x)) {
    const float e = expf(-size * (kTanhLinear + kTanhCubic * size * size));
    above = 1 / (1 + e);
    below = e * above;
  }
  __device__ float gate(float x) const { return x > 0 ? above : below; }
  /// |x| σ'(v) v'
  __device__ float rise() const { return size * (kTanhLinear + 3 * kTanhCubic * size * size) * above * below; }
};

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
    case Activation::gelu_tanh:
      return x * TanhGate(x).gate(x);
    default:
      return x;
  }
}

/// Derivatives: from x where ActivationSpec::reads_input, else from y.
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
    case Activation::gelu_tanh: {
      const TanhGate gate(x);
      return gate.gate(x) + (x > 0 ? gate.rise() : -gate.rise());
    }
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

// Dropout: see dropout_mask.hpp.

namespace {

/// Each thread computes elements of an example with the numbers 4 · group … 4 · group + 3 in the canonical order.
template <typename T>
__global__ void drop(std::int64_t groups, std::int64_t channels, std::int64_t pixels, const Mask* mask, float scale,
                     const std::uint64_t* const* examples, const T* x, T* y) {
  const std::int64_t size = channels * pixels, before = mask->first % kWords;
  const std::int64_t groups_of_example = (before + size + kWords - 1) / kWords;
  for (std::int64_t i = thread_number(); i < groups; i += threads_of_grid()) {
    const std::int64_t n = i / groups_of_example, group = i % groups_of_example;
    std::uint32_t words[kWords];
    mask->words_of((*examples)[n], mask->first / kWords + group, words);
    for (std::int64_t k = 0; k < kWords; ++k) {
      const std::int64_t e = group * kWords + k - before;
      if (e < 0 || e >= size) continue;
      const std::int64_t at = n * size + e % pixels * channels + e / pixels;
      y[at] = rounded_to<T>(mask->keeps(words[k]) ? to_float(x[at]) * scale : 0);
    }
  }
}

}  // namespace

void CudaBackend::dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                          MutableView y) {
  const Index pixels = extent.height * extent.width;
  const Index of_example = (key.first % kWords + extent.size() + kWords - 1) / kWords;
  const Index groups = std::ssize(examples) * of_example;
  const auto* const staged = queue().stage(mask_of(key));
  const auto* const numbers = queue().upload(examples);
  with_type([&]<typename T>(T) {
    queue().launch(drop<T>, grid_for(groups), groups, extent.channels, pixels, staged, scale_of_kept(key), numbers,
                   values_of<T>(x), values_of<T>(y));
  });
}

// The gradient with respect to a ReLU's input, and that of a bias, in one pass over dy.

namespace {

constexpr Index kRowsEachPart = 256;

/// Part p of the rows: partial[p][c] = Σ dy[row][c], after dy ← dy ⊙ (y > 0).
template <typename T>
__global__ void mask_and_sum_parts(std::int64_t rows, std::int64_t channels, const T* y, T* dy, float* partial) {
  const std::int64_t channel = column_number();
  const RowsOfPart own(rows);
  float sum = 0;
  if (channel < channels) {
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kAhead * kRowsOfBlock) {
      float gradients[kAhead];
      bool passes[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        const std::int64_t there = row + j * kRowsOfBlock, at = there * channels + channel;
        const bool is_own = there < own.last;
        gradients[j] = is_own ? to_float(dy[at]) : 0;
        passes[j] = !is_own || y == nullptr || to_float(y[at]) > 0;
      }
      for (int j = 0; j < kAhead; ++j) {
        if (passes[j]) {
          sum += gradients[j];
        } else {
          dy[(row + j * kRowsOfBlock) * channels + channel] = rounded_to<T>(0);
        }
      }
    }
  }
  sum = column_sum(sum);
  if (threadIdx.y > 0 || channel >= channels || partial == nullptr) return;
  partial[static_cast<std::int64_t>(blockIdx.y) * channels + channel] = sum;
}

/// db[c] (+)= Σ over parts.
__global__ void add_parts(std::int64_t channels, std::int64_t parts, const float* partial, bool adds, float* db) {
  const std::int64_t channel = column_number();
  const float total = sum_of_parts(parts, channels, partial);
  if (threadIdx.y > 0 || channel >= channels) return;
  db[channel] = (adds ? db[channel] : 0) + total;
}

}  // namespace

void CudaBackend::mask_and_sum(Index rows, Index channels, View y, MutableView dy, MutableView db, Write write) {
  if (y.empty() && db.empty()) return;
  const Index parts = parts_of_rows(rows, kRowsEachPart);
  float* const partial = db.empty() ? nullptr : partials_.take<float>(parts * channels);
  with_type([&]<typename T>(T) {
    queue().launch(mask_and_sum_parts<T>, grid_of_columns(channels, parts), rows, channels, values_of<T>(y),
                   values_of<T>(dy), partial);
  });
  if (db.empty()) return;
  queue().launch(add_parts, grid_of_columns(channels), channels, parts, partial, write == Write::add, db.data());
}

// Gates: rows of 2F values, of which the first F are multiplied with σ of themselves and with the other F.

namespace {

/// Places of packs in rows of 2F values.
struct GatePlace {
  std::int64_t own, gated;
  __device__ GatePlace(std::int64_t i, std::int64_t packs_of_row)
      : own(i / packs_of_row * 2 * packs_of_row + i % packs_of_row), gated(own + packs_of_row) {}
};

template <typename T, int kValues>
__global__ void gate(std::int64_t packs, std::int64_t packs_of_row, const Pack<T, kValues>* x, Pack<T, kValues>* y) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const GatePlace at(i, packs_of_row);
    const Pack<T, kValues> own = x[at.own], gated = x[at.gated];
    Pack<T, kValues> result;
    for (int j = 0; j < kValues; ++j) {
      const float z = to_float(own.values[j]);
      result.values[j] = rounded_to<T>(z / (1 + expf(-z)) * to_float(gated.values[j]));
    }
    y[i] = result;
  }
}

template <typename T, int kValues>
__global__ void gate_backward_of(std::int64_t packs, std::int64_t packs_of_row, const Pack<T, kValues>* x,
                                 const Pack<T, kValues>* dy, Pack<T, kValues>* dx) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const GatePlace at(i, packs_of_row);
    const Pack<T, kValues> gradient = dy[i];
    Pack<T, kValues> own = x[at.own], gated = x[at.gated];
    for (int j = 0; j < kValues; ++j) {
      const float z = to_float(own.values[j]), s = 1 / (1 + expf(-z)), dy_j = to_float(gradient.values[j]);
      own.values[j] = rounded_to<T>(dy_j * to_float(gated.values[j]) * (s + z * s * (1 - s)));
      gated.values[j] = rounded_to<T>(dy_j * z * s);
    }
    dx[at.own] = own;
    dx[at.gated] = gated;
  }
}

}  // namespace

void CudaBackend::gate_forward(Index units, Index batch, View x, MutableView y) {
  const Index n = batch * units;
  with_packs(units, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(gate<T, kValues>, grid_for(n / kValues), n / kValues, units / kValues, values_of<Values>(x),
                   values_of<Values>(y));
  });
}

void CudaBackend::gate_backward(Index units, Index batch, View x, View dy, MutableView dx) {
  const Index n = batch * units;
  with_packs(units, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(gate_backward_of<T, kValues>, grid_for(n / kValues), n / kValues, units / kValues,
                   values_of<Values>(x), values_of<Values>(dy), values_of<Values>(dx));
  });
}

}  // namespace unisono::kernels::cuda
