// Batch normalisation over [rows, C]: sums of channels in double, each in an order that depends only on the shape.
#include "cuda/column_sums.hpp"

namespace unisono::kernels::cuda {
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

/// dy ← dy ⊙ (y > 0) where y is not null, then Σ dy and Σ dy x̂.
template <typename T>
__global__ void sum_gradients(std::int64_t rows, std::int64_t channels, const T* x, const float* mean,
                              const float* inverse_deviation, const T* y, T* dy, double* partial) {
  const std::int64_t channel = column_number();
  const RowsOfPart own(rows);
  double sum = 0, products = 0;
  if (channel < channels) {
    const float center = mean[channel], scale = inverse_deviation[channel];
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kAhead * kRowsOfBlock) {
      float gradients[kAhead], values[kAhead];
      bool passes[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        const std::int64_t there = row + j * kRowsOfBlock, at = there * channels + channel;
        const bool is_own = there < own.last;
        gradients[j] = is_own ? to_float(dy[at]) : 0;
        values[j] = is_own ? to_float(x[at]) : 0;
        passes[j] = !is_own || y == nullptr || to_float(y[at]) > 0;
      }
      for (int j = 0; j < kAhead; ++j) {
        if (passes[j]) {
          sum += static_cast<double>(gradients[j]);
          products += static_cast<double>(gradients[j]) * static_cast<double>((values[j] - center) * scale);
        } else {
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
                          const float* mean, const float* inverse_deviation, const float* gamma, const float* beta,
                          const Pack<T, kValues>* residual, Pack<T, kValues>* y) {
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const Pack<T, kValues> own = x[i], other = residual != nullptr ? residual[i] : Pack<T, kValues>{};
    const std::int64_t first = i * kValues % channels;
    Pack<T, kValues> result;
    for (int j = 0; j < kValues; ++j) {
      const std::int64_t c = first + j;
      float value = gamma[c] * ((to_float(own.values[j]) - mean[c]) * inverse_deviation[c]) + beta[c];
      if (residual != nullptr) value += to_float(other.values[j]);
      result.values[j] = rounded_to<T>(relu && !(value > 0) ? 0 : value);
    }
    y[i] = result;
  }
}

template <typename T, int kValues>
__global__ void normalise_backward(std::int64_t packs, std::int64_t channels, const Pack<T, kValues>* x,
                                   const float* mean, const float* inverse_deviation, const float* gamma,
                                   const Pack<T, kValues>* dy, const double* sums, Pack<T, kValues>* dx) {
  const double count = sums[2 * channels];
  const double share = count > 0 ? 1 / count : 0;
  for (std::int64_t i = thread_number(); i < packs; i += threads_of_grid()) {
    const Pack<T, kValues> own = x[i], gradient = dy[i];
    const std::int64_t first = i * kValues % channels;
    Pack<T, kValues> result;
    for (int j = 0; j < kValues; ++j) {
      const std::int64_t c = first + j;
      const float hat = (to_float(own.values[j]) - mean[c]) * inverse_deviation[c];
      const auto common = static_cast<float>(sums[c] * share), tilt = static_cast<float>(sums[channels + c] * share);
      result.values[j] =
          rounded_to<T>(gamma[c] * inverse_deviation[c] * (to_float(gradient.values[j]) - common - hat * tilt));
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

void CudaBackend::batch_norm_forward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                     View gamma, View beta, View residual, MutableView y) {
  const Index n = batch * spec.extent.size();
  with_packs(spec.extent.channels, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(normalise<T, kValues>, grid_for(n / kValues), n / kValues, spec.extent.channels,
                   spec.activation == Activation::relu, values_of<Values>(x), mean.data(), inverse_deviation.data(),
                   gamma.data(), beta.data(), values_of<Values>(residual), values_of<Values>(y));
  });
}

void CudaBackend::batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                           View y, MutableView dy, std::span<double> sums) {
  const Index channels = spec.extent.channels, rows = rows_of(spec, batch), parts = parts_of_rows(rows, kRowsEachPart);
  auto* const partial = partials_.take<double>(parts * 2 * channels);
  const bool relu = spec.activation == Activation::relu;
  with_type([&]<typename T>(T) {
    queue().launch(sum_gradients<T>, grid_of_columns(channels, parts), rows, channels, values_of<T>(x), mean.data(),
                   inverse_deviation.data(), relu ? values_of<T>(y) : nullptr, values_of<T>(dy), partial);
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

void CudaBackend::batch_norm_backward(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                      View gamma, View dy, std::span<const double> sums, MutableView dx) {
  const Index n = batch * spec.extent.size();
  with_packs(spec.extent.channels, [&]<typename T, int kValues>(Pack<T, kValues>) {
    using Values = Pack<T, kValues>;
    queue().launch(normalise_backward<T, kValues>, grid_for(n / kValues), n / kValues, spec.extent.channels,
                   values_of<Values>(x), mean.data(), inverse_deviation.data(), gamma.data(), values_of<Values>(dy),
                   sums.data(), values_of<Values>(dx));
  });
}

}  // namespace unisono::kernels::cuda
