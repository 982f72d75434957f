// Batch normalisation over [rows, C]: sums of channels in double, each in an order that depends on the shape alone.
#include "cuda/grid.hpp"

namespace unisono::cuda {
namespace {

constexpr unsigned kColumns = 32, kRowsOfBlock = 8;  // threads
constexpr Index kRowsOfPart = 256, kMostParts = 256;

/// Adds up two numbers a channel over the rows of a block. \param sums of this thread \param partial [parts][2][C]
__device__ void sum_over_rows(double first, double second, std::int64_t channels, std::int64_t channel,
                              double* partial) {
  __shared__ double sums[2][kRowsOfBlock][kColumns];
  sums[0][threadIdx.y][threadIdx.x] = first;
  sums[1][threadIdx.y][threadIdx.x] = second;
  __syncthreads();
  if (threadIdx.y > 1 || channel >= channels) return;
  double total = 0;
  for (unsigned row = 0; row < kRowsOfBlock; ++row) total += sums[threadIdx.y][row][threadIdx.x];
  partial[(static_cast<std::int64_t>(blockIdx.y) * 2 + threadIdx.y) * channels + channel] = total;
}

/// The part of the rows that this block has.
struct Rows {
  std::int64_t first, last;
  __device__ explicit Rows(std::int64_t rows)
      : first(rows * blockIdx.y / gridDim.y), last(rows * (blockIdx.y + 1) / gridDim.y) {}
};

template <typename T>
__global__ void sum_values(std::int64_t rows, std::int64_t channels, const T* x, double* partial) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const Rows own(rows);
  double sum = 0, squares = 0;
  if (channel < channels) {
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kRowsOfBlock) {
      const double value = to_float(x[row * channels + channel]);
      sum += value;
      squares += value * value;
    }
  }
  sum_over_rows(sum, squares, channels, channel, partial);
}

/// dy ← dy ⊙ (y > 0) where y is there, then Σ dy and Σ dy x̂.
template <typename T>
__global__ void sum_gradients(std::int64_t rows, std::int64_t channels, const T* x, const float* mean,
                              const float* inverse_deviation, const T* y, T* dy, double* partial) {
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const Rows own(rows);
  double sum = 0, products = 0;
  if (channel < channels) {
    const float center = mean[channel], scale = inverse_deviation[channel];
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kRowsOfBlock) {
      const std::int64_t at = row * channels + channel;
      float gradient = to_float(dy[at]);
      if (y != nullptr && !(to_float(y[at]) > 0)) {
        gradient = 0;
        dy[at] = rounded_to<T>(0);
      }
      sum += static_cast<double>(gradient);
      products += static_cast<double>(gradient) * static_cast<double>((to_float(x[at]) - center) * scale);
    }
  }
  sum_over_rows(sum, products, channels, channel, partial);
}

/// sums[i] = Σ over parts, and behind them the number of rows.
__global__ void add_parts(std::int64_t channels, std::int64_t parts, const double* partial, double rows, double* sums) {
  const std::int64_t i = thread_number();
  if (i == 0) sums[2 * channels] = rows;
  if (i >= 2 * channels) return;
  double total = 0;
  for (std::int64_t part = 0; part < parts; ++part) total += partial[part * 2 * channels + i];
  sums[i] = total;
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
  mean[c] = static_cast<float>(center);
  inverse_deviation[c] = inverse_root(variance, epsilon);
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

template <typename T>
__global__ void normalise(std::int64_t n, std::int64_t channels, bool relu, const T* x, const float* mean,
                          const float* inverse_deviation, const float* gamma, const float* beta, const T* residual,
                          T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t c = i % channels;
    float value = gamma[c] * ((to_float(x[i]) - mean[c]) * inverse_deviation[c]) + beta[c];
    if (residual != nullptr) value += to_float(residual[i]);
    y[i] = rounded_to<T>(relu && !(value > 0) ? 0 : value);
  }
}

template <typename T>
__global__ void normalise_backward(std::int64_t n, std::int64_t channels, const T* x, const float* mean,
                                   const float* inverse_deviation, const float* gamma, const T* dy, const double* sums,
                                   T* dx) {
  const double count = sums[2 * channels];
  const double share = count > 0 ? 1 / count : 0;
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t c = i % channels;
    const float hat = (to_float(x[i]) - mean[c]) * inverse_deviation[c];
    const auto common = static_cast<float>(sums[c] * share), tilt = static_cast<float>(sums[channels + c] * share);
    dx[i] = rounded_to<T>(gamma[c] * inverse_deviation[c] * (to_float(dy[i]) - common - hat * tilt));
  }
}

__global__ void parameter_gradients(std::int64_t channels, const double* sums, bool adds, float* dgamma, float* dbeta) {
  const std::int64_t c = thread_number();
  if (c >= channels) return;
  dbeta[c] = (adds ? dbeta[c] : 0) + static_cast<float>(sums[c]);
  dgamma[c] = (adds ? dgamma[c] : 0) + static_cast<float>(sums[channels + c]);
}

Index rows_of(const NormSpec& spec, Index batch) { return batch * spec.extent.height * spec.extent.width; }

Index parts_of(Index rows) { return std::min<Index>(kMostParts, blocks_for(rows, kRowsOfPart)); }

Grid grid_of_sums(Index channels, Index rows) {
  return {.blocks = dim3(blocks_for(channels, kColumns), static_cast<unsigned>(parts_of(rows))),
          .threads = dim3(kColumns, kRowsOfBlock)};
}

Grid grid_of_channels(Index channels) { return {.blocks = blocks_for(channels, kBlock), .threads = kBlock}; }

}  // namespace

void CudaBackend::batch_norm_sums(const NormSpec& spec, Index batch, View x, std::span<double> sums) {
  const Index channels = spec.extent.channels, rows = rows_of(spec, batch), parts = parts_of(rows);
  auto* const partial = partials_.take<double>(parts * 2 * channels);
  with_type([&]<typename T>(T) {
    queue().launch(sum_values<T>, grid_of_sums(channels, rows), rows, channels, values_of<T>(x), partial);
  });
  queue().launch(add_parts, grid_of_channels(2 * channels), channels, parts, partial, static_cast<double>(rows),
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
  with_type([&]<typename T>(T) {
    queue().launch(normalise<T>, grid_for(n), n, spec.extent.channels, spec.activation == Activation::relu,
                   values_of<T>(x), mean.data(), inverse_deviation.data(), gamma.data(), beta.data(),
                   values_of<T>(residual), values_of<T>(y));
  });
}

void CudaBackend::batch_norm_backward_sums(const NormSpec& spec, Index batch, View x, View mean, View inverse_deviation,
                                           View y, MutableView dy, std::span<double> sums) {
  const Index channels = spec.extent.channels, rows = rows_of(spec, batch), parts = parts_of(rows);
  auto* const partial = partials_.take<double>(parts * 2 * channels);
  const bool relu = spec.activation == Activation::relu;
  with_type([&]<typename T>(T) {
    queue().launch(sum_gradients<T>, grid_of_sums(channels, rows), rows, channels, values_of<T>(x), mean.data(),
                   inverse_deviation.data(), relu ? values_of<T>(y) : nullptr, values_of<T>(dy), partial);
  });
  queue().launch(add_parts, grid_of_channels(2 * channels), channels, parts, partial, static_cast<double>(rows),
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
  with_type([&]<typename T>(T) {
    queue().launch(normalise_backward<T>, grid_for(n), n, spec.extent.channels, values_of<T>(x), mean.data(),
                   inverse_deviation.data(), gamma.data(), values_of<T>(dy), sums.data(), values_of<T>(dx));
  });
}

}  // namespace unisono::cuda
