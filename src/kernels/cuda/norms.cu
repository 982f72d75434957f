#include "cuda/column_sums.hpp"

namespace unisono::kernels::cuda {

// Batch normalisation over [rows, C]: sums of channels in double, each in an order that depends only on the shape.

namespace {

constexpr Index kRowsEachPart = 256;

/// Two sums for each channel, over the rows of a block. \param partial [parts][2][C]
__device__ void add_to_partial(double first, double second, std::int64_t channels, std::int64_t channel,
                               double* partial) {
  first = column_sum(first);
  second = column_sum(second);
  if (threadIdx.y > 0 || channel >= channels) return;
  partial += static_cast<std::int64_t>(blockIdx.y) * 2 * channels;
  partial[channel] = first;
  partial[channels + channel] = second;
}

template <typename T>
__global__ void sum_values(std::int64_t rows, std::int64_t channels, const T* x, double* partial) {
  const std::int64_t channel = column_number();
  const RowsOfPart own(rows);
  double sum = 0, squares = 0;
  if (channel < channels) {
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kRowsOfBlock) {
      const double value = to_float(x[row * channels + channel]);
      sum += value;
      squares += value * value;
    }
  }
  add_to_partial(sum, squares, channels, channel, partial);
}

/// NormTerms on the device.
struct DeviceTerms {
  const float *mean, *inverse_deviation, *gamma, *beta;

  __device__ float normalised(std::int64_t channel, float x) const {
    return (x - mean[channel]) * inverse_deviation[channel];
  }
  /// y before the activation. Rounded in one way in all kernels, since its sign is a mask.
  __device__ float output(std::int64_t channel, float normalised) const {
    return fmaf(gamma[channel], normalised, beta[channel]);
  }
};

DeviceTerms on_device(const NormTerms& terms) {
  return {terms.mean.data(), terms.inverse_deviation.data(), terms.gamma.data(), terms.beta.data()};
}

/// Σ d and Σ d x̂. d is dy; where y is not null dy ⊙ (y > 0), which replaces dy; if `masks`, the same with the y of a
/// forward pass without a residual, and dy is left as it is.
template <typename T>
__global__ void sum_gradients(std::int64_t rows, std::int64_t channels, bool masks, const T* x, DeviceTerms terms,
                              const T* y, T* dy, double* partial) {
  const std::int64_t channel = column_number();
  const RowsOfPart own(rows);
  double sum = 0, products = 0;
  if (channel < channels) {
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kAhead * kRowsOfBlock) {
      float gradients[kAhead], values[kAhead];
      bool passes[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        const std::int64_t there = row + j * kRowsOfBlock, at = there * channels + channel;
        const bool is_own = there < own.last;
        gradients[j] = is_own ? to_float(dy[at]) : 0;
        values[j] = is_own ? terms.normalised(channel, to_float(x[at])) : 0;
        passes[j] =
            !is_own || ((y == nullptr || to_float(y[at]) > 0) && (!masks || terms.output(channel, values[j]) > 0));
      }
      for (int j = 0; j < kAhead; ++j) {
        if (passes[j]) {
          sum += static_cast<double>(gradients[j]);
          products += static_cast<double>(gradients[j]) * static_cast<double>(values[j]);
        } else if (!masks) {
          dy[(row + j * kRowsOfBlock) * channels + channel] = rounded_to<T>(0);
        }
      }
    }
  }
  add_to_partial(sum, products, channels, channel, partial);
}

/// sums[i] = Σ over parts; the last of `sums` is the number of rows.
__global__ void add_parts(std::int64_t channels, std::int64_t parts, const double* partial, double rows, double* sums) {
  const std::int64_t i = column_number();
  const double total = sum_of_parts(parts, 2 * channels, partial);
  if (threadIdx.y > 0) return;
  if (i == 0) sums[2 * channels] = rows;
  if (i < 2 * channels) sums[i] = total;
}

__device__ float inverse_root(double variance, float epsilon) {
  return static_cast<float>(1 / sqrt(variance + static_cast<double>(epsilon)));
}

__global__ void moments_of_sums(std::int64_t channels, const double* sums, double momentum, float epsilon,
                                float* running_mean, float* running_variance, float* mean, float* inverse_deviation) {
  const std::int64_t c = thread_number();
  const double n = sums[2 * channels];
  if (c >= channels || n == 0) return;
  const double center = sums[c] / n, difference = sums[channels + c] / n - center * center;
  const double variance = difference > 0 ? difference : 0;
  const double unbiased = variance * n / (n > 2 ? n - 1 : 1);
  if (mean != nullptr) {
    mean[c] = static_cast<float>(center);
    inverse_deviation[c] = inverse_root(variance, epsilon);
  }
  if (running_mean == nullptr) return;
  running_mean[c] = static_cast<float>((1 - momentum) * running_mean[c] + momentum * center);
  running_variance[c] = static_cast<float>((1 - momentum) * running_variance[c] + momentum * unbiased);
}

__global__ void moments_of_running(std::int64_t channels, float epsilon, const float* running_mean,
                                   const float* running_variance, float* mean, float* inverse_deviation) {
  const std::int64_t c = thread_number();
  if (c >= channels) return;
  mean[c] = running_mean[c];
  inverse_deviation[c] = inverse_root(static_cast<double>(running_variance[c]), epsilon);
}

/// Packs of neighbouring channels, as many as a thread takes at once.
template <typename T, int kValues>
__global__ void normalise(std::int64_t packs, std::int64_t channels, bool relu, const Pack<T, kValues>* x,
                          DeviceTerms terms, const Pack<T, kValues>* residual, Pack<T, kValues>* y) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const Pack<T, kValues> own = x[i], other = residual != nullptr ? residual[i] : Pack<T, kValues>{};
    const std::int64_t first = i * kValues % channels;
    Pack<T, kValues> result;
    for (int j = 0; j < kValues; ++j) {
      const std::int64_t c = first + j;
      float value = terms.output(c, terms.normalised(c, to_float(own.values[j])));
      if (residual != nullptr) value += to_float(other.values[j]);
      result.values[j] = rounded_to<T>(relu && !(value > 0) ? 0 : value);
    }
    y[i] = result;
  }
}

template <typename T, int kValues>
__global__ void normalise_backward(std::int64_t packs, std::int64_t channels, bool masks, const Pack<T, kValues>* x,
                                   DeviceTerms terms, const Pack<T, kValues>* dy, const double* sums,
                                   Pack<T, kValues>* dx) {
  const double count = sums[2 * channels];
  const double share = count > 0 ? 1 / count : 0;
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const Pack<T, kValues> own = x[i], gradient = dy[i];
    const std::int64_t first = i * kValues % channels;
    Pack<T, kValues> result;
    for (int j = 0; j < kValues; ++j) {
      const std::int64_t c = first + j;
      const float hat = terms.normalised(c, to_float(own.values[j]));
      const float d = masks && !(terms.output(c, hat) > 0) ? 0 : to_float(gradient.values[j]);
      const auto common = static_cast<float>(sums[c] * share), tilt = static_cast<float>(sums[channels + c] * share);
      result.values[j] = rounded_to<T>(terms.gamma[c] * terms.inverse_deviation[c] * (d - common - hat * tilt));
    }
    dx[i] = result;
  }
}

__global__ void parameter_gradients(std::int64_t channels, const double* sums, bool adds, float* dgamma, float* dbeta) {
  const std::int64_t c = thread_number();
  if (c >= channels) return;
  dbeta[c] = (adds ? dbeta[c] : 0) + static_cast<float>(sums[c]);
  dgamma[c] = (adds ? dgamma[c] : 0) + static_cast<float>(sums[channels + c]);
}

Index rows_of(const NormSpec& spec, Index batch) { return batch * spec.extent.height * spec.extent.width; }

Grid grid_of_channels(Index channels) { return {.blocks = blocks_for(channels, kBlock), .threads = kBlock}; }

}  // namespace

void CudaBackend::batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) {
  const Index channels = spec.extent.channels, rows = rows_of(spec, batch), parts = parts_of_rows(rows, kRowsEachPart);
  auto* const partial = partials_.take<double>(parts * 2 * channels);
  with_type([&]<typename T>(T) {
    queue().launch(sum_values<T>, grid_of_columns(channels, parts), rows, channels, values_of<T>(x), partial);
  });
  queue().launch(add_parts, grid_of_columns(2 * channels), channels, parts, partial, static_cast<double>(rows),
                 sums.data());
}

void CudaBackend::batch_norm_moments(const NormSpec& spec, std::span<const double> sums, double momentum,
                                     MutableView running_mean, MutableView running_variance, MutableView mean,
                                     MutableView inverse_deviation) {
  const Index channels = spec.extent.channels;
  queue().launch(moments_of_sums, grid_of_channels(channels), channels, sums.data(), momentum, spec.epsilon,
                 running_mean.data(), running_variance.data(), mean.data(), inverse_deviation.data());
}

void CudaBackend::batch_norm_running_moments(const NormSpec& spec, View running_mean, View running_variance,
                                             MutableView mean, MutableView inverse_deviation) {
  const Index channels = spec.extent.channels;
  queue().launch(moments_of_running, grid_of_channels(channels), channels, spec.epsilon, running_mean.data(),
                 running_variance.data(), mean.data(), inverse_deviation.data());
}

void CudaBackend::batch_norm_forward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View residual,
                                     MutableView y) {
  const Index n = batch * spec.extent.size();
  with_packs(spec.extent.channels, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(normalise<T, kValues>, grid_for(n / kValues), n / kValues, spec.extent.channels,
                   spec.activation == Activation::relu, values_of<Values>(x), on_device(terms),
                   values_of<Values>(residual), values_of<Values>(y));
  });
}

void CudaBackend::batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View y,
                                           MutableView dy, std::span<double> sums) {
  const Index channels = spec.extent.channels, rows = rows_of(spec, batch), parts = parts_of_rows(rows, kRowsEachPart);
  auto* const partial = partials_.take<double>(parts * 2 * channels);
  const bool by_output = spec.relu_mask() == ReluMask::from_output;
  with_type([&]<typename T>(T) {
    queue().launch(sum_gradients<T>, grid_of_columns(channels, parts), rows, channels,
                   spec.relu_mask() == ReluMask::from_input, values_of<T>(x), on_device(terms),
                   by_output ? values_of<T>(y) : nullptr, values_of<T>(dy), partial);
  });
  queue().launch(add_parts, grid_of_columns(2 * channels), channels, parts, partial, static_cast<double>(rows),
                 sums.data());
}

void CudaBackend::batch_norm_parameter_gradients(const NormSpec& spec, std::span<const double> sums, MutableView dgamma,
                                                 MutableView dbeta, Write write) {
  const Index channels = spec.extent.channels;
  queue().launch(parameter_gradients, grid_of_channels(channels), channels, sums.data(), write == Write::add,
                 dgamma.data(), dbeta.data());
}

void CudaBackend::batch_norm_backward(const NormSpec& spec, Index batch, View x, const NormTerms& terms, View dy,
                                      std::span<const double> sums, MutableView dx) {
  const Index n = batch * spec.extent.size();
  with_packs(spec.extent.channels, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(normalise_backward<T, kValues>, grid_for(n / kValues), n / kValues, spec.extent.channels,
                   spec.relu_mask() == ReluMask::from_input, values_of<Values>(x), on_device(terms),
                   values_of<Values>(dy), sums.data(), values_of<Values>(dx));
  });
}

// Layer normalisation: each example over its own values; one block for each example.

namespace {

constexpr Index kExamplesEachPart = 64;

struct Moments {
  float mean, inverse_deviation;
};

/// Mean and variance of one example's values, by the whole block; the variance is the mean squared distance to the
/// mean.
template <typename T>
__device__ Moments moments_of(std::int64_t size, const T* x, float epsilon) {
  double sum = 0, squares = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) sum += static_cast<double>(to_float(x[i]));
  const double mean = block_sum(sum) / static_cast<double>(size);
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    const double distance = static_cast<double>(to_float(x[i])) - mean;
    squares += distance * distance;
  }
  const double variance = block_sum(squares) / static_cast<double>(size);
  return {static_cast<float>(mean), static_cast<float>(1 / sqrt(variance + static_cast<double>(epsilon)))};
}

template <typename T>
__global__ void normalise_rows(std::int64_t size, float epsilon, const T* x, const float* gamma, const float* beta,
                               T* y) {
  x += static_cast<std::int64_t>(blockIdx.x) * size;
  y += static_cast<std::int64_t>(blockIdx.x) * size;
  const Moments own = moments_of(size, x, epsilon);
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    y[i] = rounded_to<T>(gamma[i] * ((to_float(x[i]) - own.mean) * own.inverse_deviation) + beta[i]);
  }
}

/// dx = inverse_deviation (γ dy − mean(γ dy) − x̂ mean(γ dy x̂)); the moments are kept for the parameters' gradients.
template <typename T>
__global__ void normalise_rows_backward(std::int64_t size, float epsilon, const T* x, const float* gamma, const T* dy,
                                        T* dx, float* means, float* inverse_deviations) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * size;
  const Moments own = moments_of(size, x + first, epsilon);
  if (threadIdx.x == 0) {
    means[blockIdx.x] = own.mean;
    inverse_deviations[blockIdx.x] = own.inverse_deviation;
  }
  if (dx == nullptr) return;
  double sum = 0, products = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    const float hat = (to_float(x[first + i]) - own.mean) * own.inverse_deviation;
    const auto gradient = static_cast<double>(gamma[i] * to_float(dy[first + i]));
    sum += gradient;
    products += gradient * static_cast<double>(hat);
  }
  const auto mean = static_cast<float>(block_sum(sum) / static_cast<double>(size));
  const auto tilt = static_cast<float>(block_sum(products) / static_cast<double>(size));
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    const float hat = (to_float(x[first + i]) - own.mean) * own.inverse_deviation;
    dx[first + i] = rounded_to<T>(own.inverse_deviation * (gamma[i] * to_float(dy[first + i]) - mean - hat * tilt));
  }
}

/// For part p of the batch: partial[p] = Σ dy; after those of all parts come the Σ dy x̂.
template <typename T>
__global__ void row_gradients_of_parts(std::int64_t size, std::int64_t batch, const T* x, const T* dy,
                                       const float* means, const float* inverse_deviations, double* partial) {
  const std::int64_t i = column_number();
  const RowsOfPart own(batch);
  double sum = 0, products = 0;
  if (i < size) {
    for (std::int64_t b = own.first + threadIdx.y; b < own.last; b += kRowsOfBlock) {
      const auto gradient = static_cast<double>(to_float(dy[b * size + i]));
      sum += gradient;
      products += gradient * static_cast<double>((to_float(x[b * size + i]) - means[b]) * inverse_deviations[b]);
    }
  }
  sum = column_sum(sum);
  products = column_sum(products);
  if (threadIdx.y > 0 || i >= size) return;
  partial[static_cast<std::int64_t>(blockIdx.y) * size + i] = sum;
  partial[static_cast<std::int64_t>(gridDim.y + blockIdx.y) * size + i] = products;
}

/// dγ[i] (+)= Σ dy x̂, dβ[i] (+)= Σ dy over the batch.
__global__ void row_parameter_gradients(std::int64_t size, std::int64_t parts, const double* partial, bool adds,
                                        float* dgamma, float* dbeta) {
  const std::int64_t i = column_number();
  const double sum = sum_of_parts(parts, size, partial), products = sum_of_parts(parts, size, partial + parts * size);
  if (threadIdx.y > 0 || i >= size) return;
  dbeta[i] = (adds ? dbeta[i] : 0) + static_cast<float>(sum);
  dgamma[i] = (adds ? dgamma[i] : 0) + static_cast<float>(products);
}

/// What is normalised together: examples, or their pixels, whose channels are neighbours in memory.
struct NormRows {
  Index count, size;

  NormRows(const NormSpec& spec, Index batch)
      : count(spec.of_pixels ? batch * spec.extent.height * spec.extent.width : batch),
        size(spec.of_pixels ? spec.extent.channels : spec.extent.size()) {}
};

Grid grid_of_examples(Index batch) { return {.blocks = static_cast<unsigned>(batch), .threads = kBlock}; }

}  // namespace

void CudaBackend::layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) {
  const NormRows rows(spec, batch);
  with_type([&]<typename T>(T) {
    queue().launch(normalise_rows<T>, grid_of_examples(rows.count), rows.size, spec.epsilon, values_of<T>(x),
                   gamma.data(), beta.data(), values_of<T>(y));
  });
}

void CudaBackend::layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                      MutableView dgamma, MutableView dbeta, Write write) {
  const NormRows rows(spec, batch);
  const Index size = rows.size, parts = parts_of_rows(rows.count, kExamplesEachPart);
  double* const partial = partials_.take<double>(2 * parts * size + rows.count);
  auto* const means = reinterpret_cast<float*>(partial + 2 * parts * size);
  with_type([&]<typename T>(T) {
    queue().launch(normalise_rows_backward<T>, grid_of_examples(rows.count), rows.size, spec.epsilon, values_of<T>(x),
                   gamma.data(), values_of<T>(dy), values_of<T>(dx), means, means + rows.count);
    if (dgamma.empty()) return;
    queue().launch(row_gradients_of_parts<T>, grid_of_columns(rows.size, parts), rows.size, rows.count, values_of<T>(x),
                   values_of<T>(dy), means, means + rows.count, partial);
  });
  if (dgamma.empty()) return;
  queue().launch(row_parameter_gradients, grid_of_columns(size), size, parts, partial, write == Write::add,
                 dgamma.data(), dbeta.data());
}

// Normalisation by the root of the mean square, over each row's own values; one block for each row.

namespace {

/// 1 / √(mean(x²) + ε) of a row, by the whole block.
template <typename T>
__device__ float inverse_root_of_squares(std::int64_t size, const T* x, double epsilon) {
  double squares = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    const auto value = static_cast<double>(to_float(x[i]));
    squares += value * value;
  }
  return static_cast<float>(1 / sqrt(block_sum(squares) / static_cast<double>(size) + epsilon));
}

template <typename T>
__global__ void scale_rows(std::int64_t size, double epsilon, const T* x, const float* gamma, T* y) {
  x += static_cast<std::int64_t>(blockIdx.x) * size;
  y += static_cast<std::int64_t>(blockIdx.x) * size;
  const float inverse = inverse_root_of_squares(size, x, epsilon);
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    y[i] = rounded_to<T>(gamma[i] * (to_float(x[i]) * inverse));
  }
}

/// dx = inverse (γ dy − x̂ mean(γ dy x̂)), x̂ = x · inverse; inverses are kept for the parameters' gradient.
template <typename T>
__global__ void scale_rows_backward(std::int64_t size, double epsilon, const T* x, const float* gamma, const T* dy,
                                    T* dx, float* inverses) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * size;
  const float inverse = inverse_root_of_squares(size, x + first, epsilon);
  if (threadIdx.x == 0) inverses[blockIdx.x] = inverse;
  if (dx == nullptr) return;
  double products = 0;
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    const float hat = to_float(x[first + i]) * inverse;
    products += static_cast<double>(gamma[i] * to_float(dy[first + i])) * static_cast<double>(hat);
  }
  const auto tilt = static_cast<float>(block_sum(products) / static_cast<double>(size));
  for (std::int64_t i = threadIdx.x; i < size; i += blockDim.x) {
    const float hat = to_float(x[first + i]) * inverse;
    dx[first + i] = rounded_to<T>(inverse * (gamma[i] * to_float(dy[first + i]) - hat * tilt));
  }
}

/// partial[p] = Σ dy x̂ over part p of the rows.
template <typename T>
__global__ void scale_gradients_of_parts(std::int64_t size, std::int64_t rows, const T* x, const T* dy,
                                         const float* inverses, double* partial) {
  const std::int64_t i = column_number();
  const RowsOfPart own(rows);
  double products = 0;
  if (i < size) {
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kRowsOfBlock) {
      const float hat = to_float(x[row * size + i]) * inverses[row];
      products += static_cast<double>(to_float(dy[row * size + i])) * static_cast<double>(hat);
    }
  }
  products = column_sum(products);
  if (threadIdx.y > 0 || i >= size) return;
  partial[static_cast<std::int64_t>(blockIdx.y) * size + i] = products;
}

/// dγ[i] (+)= Σ over parts.
__global__ void scale_gradients(std::int64_t size, std::int64_t parts, const double* partial, bool adds,
                                float* dgamma) {
  const std::int64_t i = column_number();
  const double products = sum_of_parts(parts, size, partial);
  if (threadIdx.y > 0 || i >= size) return;
  dgamma[i] = (adds ? dgamma[i] : 0) + static_cast<float>(products);
}

}  // namespace

void CudaBackend::rms_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, MutableView y) {
  with_type([&]<typename T>(T) {
    queue().launch(scale_rows<T>, grid_of_examples(batch), spec.extent.size(), spec.epsilon, values_of<T>(x),
                   gamma.data(), values_of<T>(y));
  });
}

void CudaBackend::rms_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                    MutableView dgamma, Write write) {
  const Index size = spec.extent.size();
  const Index parts = parts_of_rows(batch, kExamplesEachPart);
  double* const partial = partials_.take<double>(parts * size + batch);
  auto* const inverses = reinterpret_cast<float*>(partial + parts * size);
  with_type([&]<typename T>(T) {
    queue().launch(scale_rows_backward<T>, grid_of_examples(batch), size, spec.epsilon, values_of<T>(x), gamma.data(),
                   values_of<T>(dy), dx.empty() ? nullptr : values_of<T>(dx), inverses);
    if (dgamma.empty()) return;
    queue().launch(scale_gradients_of_parts<T>, grid_of_columns(size, parts), size, batch, values_of<T>(x),
                   values_of<T>(dy), inverses, partial);
  });
  if (dgamma.empty()) return;
  queue().launch(scale_gradients, grid_of_columns(size), size, parts, partial, write == Write::add, dgamma.data());
}

}  // namespace unisono::kernels::cuda
