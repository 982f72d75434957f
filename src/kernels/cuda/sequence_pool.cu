// One row for each sequence, from its real rows. A thread computes an element, its sum in the order of the rows.
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {
namespace {

__device__ std::int64_t length_of(const std::int32_t* const* lengths, std::int64_t rows, std::int64_t sequence) {
  return lengths == nullptr ? rows : (*lengths)[sequence];
}

template <typename T>
__global__ void pool_rows(bool takes_last, std::int64_t n, std::int64_t rows, std::int64_t units, const T* x,
                          const std::int32_t* const* lengths, T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t b = i / units, length = length_of(lengths, rows, b);
    const T* const from = x + b * rows * units + i % units;
    float sum = 0;
    for (std::int64_t t = 0; t < length && !takes_last; ++t) sum += to_float(from[t * units]);
    y[i] = rounded_to<T>(takes_last ? to_float(from[(length - 1) * units]) : sum / static_cast<float>(length));
  }
}

template <typename T>
__global__ void spread_rows(bool takes_last, std::int64_t n, std::int64_t rows, std::int64_t units,
                            const std::int32_t* const* lengths, const T* dy, T* dx) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t row = i / units, b = row / rows, t = row % rows, length = length_of(lengths, rows, b);
    const bool has_part = t < length && (!takes_last || t + 1 == length);
    const float parts = takes_last ? 1 : static_cast<float>(length);
    dx[i] = rounded_to<T>(has_part ? to_float(dy[b * units + i % units]) / parts : 0);
  }
}

/// Address, on the device, of a pointer to the lengths; null: all sequences have T rows.
const std::int32_t* const* upload_lengths(Queue& queue, std::span<const std::int32_t> lengths) {
  return lengths.empty() ? nullptr : queue.upload(lengths);
}

}  // namespace

void CudaBackend::sequence_pool_forward(const SequencePoolSpec& spec, Index batch, View x,
                                        std::span<const std::int32_t> lengths, MutableView y) {
  const Index n = batch * spec.units;
  const auto* const uploaded = upload_lengths(queue(), lengths);
  with_type([&]<typename T>(T) {
    queue().launch(pool_rows<T>, grid_for(n), spec.kind == SequencePool::last, n, spec.rows, spec.units,
                   values_of<T>(x), uploaded, values_of<T>(y));
  });
}

void CudaBackend::sequence_pool_backward(const SequencePoolSpec& spec, Index batch,
                                         std::span<const std::int32_t> lengths, View dy, MutableView dx) {
  const Index n = batch * spec.rows * spec.units;
  const auto* const uploaded = upload_lengths(queue(), lengths);
  with_type([&]<typename T>(T) {
    queue().launch(spread_rows<T>, grid_for(n), spec.kind == SequencePool::last, n, spec.rows, spec.units, uploaded,
                   values_of<T>(dy), values_of<T>(dx));
  });
}

}  // namespace unisono::kernels::cuda
