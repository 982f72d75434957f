// Values [B, C, H, W] of floats in plain memory become activations [B, H, W, C], and the way back.
#include "cuda/grid.hpp"

namespace unisono::kernels::cuda {
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

Index CudaBackend::activation_size(const Extent& extent, Index batch) const {
  return activation_floats(precision_, extent.size() * batch);
}

Index CudaBackend::scratch_size() const {
  return workspace_.size() + partials_.size() + values_.size() + rounded_.size();
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
