#include <cassert>
#include <cmath>

#include "cuda/column_sums.hpp"
#include "cuda/device_code.hpp"
#include "unisono/base/random.hpp"

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

// Dropout with the CPU's masks: element e of example n, in the canonical order, is zeroed where word e mod 4 of
// philox(key, {e div 4, epoch, n mod 2³², n div 2³²}), divided by 2⁸, is below ⌈2²⁴ rate⌉ (see cpu/elementwise.cpp).

namespace {

constexpr std::int64_t kWords = 4;  // that one call of Philox gives

/// Philox 4x32-10, as unisono::philox.
__device__ void philox_words(std::uint64_t key, std::uint32_t (&counter)[kWords]) {
  auto k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53} * counter[0], p1 = std::uint64_t{0xCD9E8D57} * counter[2];
    const std::uint32_t c1 = counter[1], c3 = counter[3];
    counter[0] = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    counter[1] = static_cast<std::uint32_t>(p1);
    counter[2] = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    counter[3] = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
}

/// The values that change from epoch to epoch.
struct Mask {
  std::uint64_t key;
  std::uint32_t epoch, threshold;
};

/// Each thread computes four neighbouring elements of an example in the canonical order.
template <typename T>
__global__ void drop(std::int64_t groups, std::int64_t channels, std::int64_t pixels, const Mask* mask, float scale,
                     const std::uint64_t* const* examples, const T* x, T* y) {
  const std::int64_t size = channels * pixels, groups_of_example = (size + kWords - 1) / kWords;
  for (std::int64_t i = thread_number(); i < groups; i += threads_of_grid()) {
    const std::int64_t n = i / groups_of_example, group = i % groups_of_example;
    const std::uint64_t example = (*examples)[n];
    std::uint32_t words[kWords] = {static_cast<std::uint32_t>(group), mask->epoch, static_cast<std::uint32_t>(example),
                                   static_cast<std::uint32_t>(example >> 32)};
    philox_words(mask->key, words);
    for (std::int64_t k = 0; k < kWords; ++k) {
      const std::int64_t e = group * kWords + k;
      if (e >= size) break;
      const std::int64_t at = n * size + e % pixels * channels + e / pixels;
      const bool is_kept = words[k] >> 8 >= mask->threshold;
      y[at] = rounded_to<T>(is_kept ? to_float(x[at]) * scale : 0);
    }
  }
}

}  // namespace

void CudaBackend::dropout(const DropoutKey& key, const Extent& extent, std::span<const std::uint64_t> examples, View x,
                          MutableView y) {
  const Mask mask{.key = stream_key(key.seed ^ (std::uint64_t{key.layer} << 32), Purpose::dropout),
                  .epoch = key.epoch,
                  .threshold = static_cast<std::uint32_t>(std::ceil(std::ldexp(key.rate, 24)))};
  const Index pixels = extent.height * extent.width;
  const Index groups = static_cast<Index>(examples.size()) * ((extent.size() + kWords - 1) / kWords);
  const auto* const staged = queue().stage(mask);
  const auto* const numbers = queue().upload(examples);
  with_type([&]<typename T>(T) {
    queue().launch(drop<T>, grid_for(groups), groups, extent.channels, pixels, staged, 1.0F / (1.0F - key.rate),
                   numbers, values_of<T>(x), values_of<T>(y));
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

}  // namespace unisono::kernels::cuda
