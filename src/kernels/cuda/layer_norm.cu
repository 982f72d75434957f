// Layer normalisation: each example over its own values; one block for each example.
#include "cuda/column_sums.hpp"

namespace unisono::kernels::cuda {
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

Grid grid_of_examples(Index batch) { return {.blocks = static_cast<unsigned>(batch), .threads = kBlock}; }

}  // namespace

void CudaBackend::layer_norm_forward(const NormSpec& spec, Index batch, View x, View gamma, View beta, MutableView y) {
  with_type([&]<typename T>(T) {
    queue().launch(normalise_rows<T>, grid_of_examples(batch), spec.extent.size(), spec.epsilon, values_of<T>(x),
                   gamma.data(), beta.data(), values_of<T>(y));
  });
}

void CudaBackend::layer_norm_backward(const NormSpec& spec, Index batch, View x, View gamma, View dy, MutableView dx,
                                      MutableView dgamma, MutableView dbeta, Write write) {
  const Index size = spec.extent.size();
  const Index parts = parts_of_rows(batch, kExamplesEachPart);
  double* const partial = partials_.take<double>(2 * parts * size + batch);
  auto* const means = reinterpret_cast<float*>(partial + 2 * parts * size);
  with_type([&]<typename T>(T) {
    queue().launch(normalise_rows_backward<T>, grid_of_examples(batch), size, spec.epsilon, values_of<T>(x),
                   gamma.data(), values_of<T>(dy), values_of<T>(dx), means, means + batch);
    if (dgamma.empty()) return;
    queue().launch(row_gradients_of_parts<T>, grid_of_columns(size, parts), size, batch, values_of<T>(x),
                   values_of<T>(dy), means, means + batch, partial);
  });
  if (dgamma.empty()) return;
  queue().launch(row_parameter_gradients, grid_of_columns(size), size, parts, partial, write == Write::add,
                 dgamma.data(), dbeta.data());
}

}  // namespace unisono::kernels::cuda
