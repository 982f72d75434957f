#include "cuda/device_code.hpp"
#include "cuda/ranges.hpp"

// Vector algebra on θ, g and optimizer state.
namespace unisono::kernels::cuda {
namespace {

__global__ void sum_of_scaled(std::int64_t n, float a, const float* x, float b, float* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    y[i] = a * x[i] + (b == 0 ? 0 : b * y[i]);
  }
}

/// Block i sums the products of chunk i.
__global__ void multiply_chunks(const RangeChunk* chunks, const float* x, const float* y, double* partial) {
  const RangeChunk chunk = chunks[blockIdx.x];
  double sum = 0;
  for (std::int64_t i = chunk.first + threadIdx.x; i < chunk.last; i += blockDim.x) {
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

/// Block r sums the chunks of range r. \param begins [ranges + 1]
__global__ void add_chunks_of_range(const std::int64_t* begins, const double* partial, double* norms) {
  double sum = 0;
  for (std::int64_t i = begins[blockIdx.x] + threadIdx.x; i < begins[blockIdx.x + 1]; i += blockDim.x) {
    sum += partial[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) norms[blockIdx.x] = sum;
}

}  // namespace

void CudaBackend::clear(MutableView x) {
  if (x.empty()) return;
  queue().add(Signature().add(x.data()).add(x.size()), [x](cudaStream_t stream) {
    check(cudaMemsetAsync(x.data(), 0, x.size_bytes(), stream), "cudaMemsetAsync");
  });
}

void CudaBackend::axpby(float a, View x, float b, MutableView y) {
  const auto n = static_cast<Index>(y.size());
  if (n > 0) queue().launch(sum_of_scaled, grid_for(n), n, a, x.data(), b, y.data());
}

double CudaBackend::value_at(const double* number) {
  double value = 0;
  memory().copy({reinterpret_cast<const float*>(number), 2}, {reinterpret_cast<float*>(&value), 2});
  return value;
}

double CudaBackend::dot(View x, View y) {
  const UpdateRange all{.first = 0, .last = static_cast<Index>(x.size())};
  const std::span<double> sum(values_.take<double>(1), 1);
  sum_products(x, y, {&all, 1}, sum);
  return value_at(sum.data());
}

double CudaBackend::squared_norm(View x) { return dot(x, x); }

void CudaBackend::squared_norms(View x, std::span<const UpdateRange> ranges, std::span<double> norms) {
  sum_products(x, x, ranges, norms);
}

void CudaBackend::sum_products(View x, View y, std::span<const UpdateRange> ranges, std::span<double> sums) {
  if (ranges.empty()) return;
  const RangeChunks cut(ranges);
  const auto chunks = static_cast<Index>(cut.chunks.size());
  double* const partial = partials_.take<double>(chunks);
  const RangeChunk* const staged = queue().stage(std::span<const RangeChunk>(cut.chunks));
  queue().launch(multiply_chunks, {.blocks = static_cast<unsigned>(chunks), .threads = kBlock}, staged, x.data(),
                 y.data(), partial);
  add_chunks(cut, partial, sums);
}

void CudaBackend::add_chunks(const RangeChunks& cut, const double* partial, std::span<double> sums) {
  const auto ranges = static_cast<unsigned>(cut.begins.size() - 1);
  queue().launch(add_chunks_of_range, {.blocks = ranges, .threads = kBlock},
                 queue().stage(std::span<const std::int64_t>(cut.begins)), partial, sums.data());
}

// Values [B, C, H, W] of floats in plain memory become activations [B, H, W, C], and the way back.

namespace {

/// Element i of activations is element canonical(i) of values.
struct Order {
  std::int64_t channels, pixels;  ///< of an example
  __device__ std::int64_t canonical(std::int64_t i) const {
    const std::int64_t size = channels * pixels, inside = i % size;
    return i - inside + inside % channels * pixels + inside / channels;
  }
};

template <typename T>
__global__ void load_values(std::int64_t n, Order order, const float* const* values, T* x) {
  const float* const from = *values;
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) x[i] = rounded_to<T>(from[order.canonical(i)]);
}

template <typename T>
__global__ void store_values(std::int64_t n, Order order, const T* x, float* values) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) values[order.canonical(i)] = to_float(x[i]);
}

Order order_of(const Extent& extent) { return {extent.channels, extent.height * extent.width}; }

}  // namespace

/// One value of an example may be a token, of 32 bits.
Index CudaBackend::activation_size(const Extent& extent, Index batch) const {
  if (extent.size() == 1) return batch;
  return activation_floats(precision_, extent.size() * batch);
}

Index CudaBackend::scratch_size() const {
  return workspace_.size() + partials_.size() + values_.size() + shared_.size() + turns_.size() + rounded_.size();
}

void CudaBackend::load(const Extent& extent, Index batch, View values, MutableView x) {
  const Index n = batch * extent.size();
  const float* const* const uploaded = queue().upload(values.first(static_cast<std::size_t>(n)));
  with_type([&]<typename T>(T) {
    queue().launch(load_values<T>, grid_for(n), n, order_of(extent), uploaded, values_of<T>(x));
  });
}

void CudaBackend::store(const Extent& extent, Index batch, View x, MutableView values) {
  const Index n = batch * extent.size();
  float* const floats = values_.take<float>(n);
  with_type([&]<typename T>(T) {
    queue().launch(store_values<T>, grid_for(n), n, order_of(extent), values_of<T>(x), floats);
  });
  memory().copy({floats, static_cast<std::size_t>(n)}, values.first(static_cast<std::size_t>(n)));
}

}  // namespace unisono::kernels::cuda
