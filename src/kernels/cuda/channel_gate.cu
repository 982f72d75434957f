// Images whose channels are multiplied with a number each.
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {
namespace {

template <typename T>
__global__ void scale_channels(std::int64_t n, std::int64_t channels, std::int64_t size, const T* x, const T* factors,
                               T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const float factor = to_float(factors[i / size * channels + i % channels]);
    y[i] = rounded_to<T>(to_float(x[i]) * factor);
  }
}

/// Each sum over an example's pixels is computed by a single thread.
template <typename T>
__global__ void factor_gradients(std::int64_t n, std::int64_t channels, std::int64_t pixels, const T* x, const T* dy,
                                 T* dfactors) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t first = i / channels * pixels * channels + i % channels;
    float sum = 0;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const std::int64_t at = first + pixel * channels;
      sum += to_float(x[at]) * to_float(dy[at]);
    }
    dfactors[i] = rounded_to<T>(sum);
  }
}

}  // namespace

void CudaBackend::channel_gate_forward(const Extent& extent, Index batch, View x, View factors, MutableView y) {
  const Index n = batch * extent.size();
  with_type([&]<typename T>(T) {
    queue().launch(scale_channels<T>, grid_for(n), n, extent.channels, extent.size(), values_of<T>(x),
                   values_of<T>(factors), values_of<T>(y));
  });
}

void CudaBackend::channel_gate_backward(const Extent& extent, Index batch, View x, View factors, View dy,
                                        MutableView dx, MutableView dfactors) {
  if (!dfactors.empty()) {
    const Index n = batch * extent.channels;
    with_type([&]<typename T>(T) {
      queue().launch(factor_gradients<T>, grid_for(n), n, extent.channels, extent.height * extent.width,
                     values_of<T>(x), values_of<T>(dy), values_of<T>(dfactors));
    });
  }
  if (!dx.empty()) channel_gate_forward(extent, batch, dy, factors, dx);
}

}  // namespace unisono::kernels::cuda
