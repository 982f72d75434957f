// Pooling. Each output, and each input's gradient, is computed by a single thread, so no atomics are needed.
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {
namespace {

/// The rows, or the columns, of an input and of the output; see PoolSpec.
struct Axis {
  std::int64_t in, out, size, stride, padding;
  std::int64_t adaptive;  ///< 1: output i sees the inputs of its share, and `size`, `stride` and `padding` say nothing
};

struct Window {
  std::int64_t channels;
  Axis rows, columns;
};

struct Span {
  std::int64_t first, last;
};
/// What one of n equal parts of `size` places covers, whole or in part.
__device__ Span part_of(std::int64_t number, std::int64_t n, std::int64_t size) {
  return {number * size / n, ((number + 1) * size + n - 1) / n};
}
/// The inputs that an output sees.
__device__ Span seen_by(const Axis& axis, std::int64_t out) {
  if (axis.adaptive != 0) return part_of(out, axis.out, axis.in);
  const std::int64_t first = out * axis.stride - axis.padding, last = first + axis.size;
  return {first < 0 ? 0 : first, last < axis.in ? last : axis.in};
}
/// The outputs that see an input.
__device__ Span seeing(const Axis& axis, std::int64_t in) {
  if (axis.adaptive != 0) return part_of(in, axis.in, axis.out);
  const std::int64_t at = in + axis.padding, last = at / axis.stride + 1;
  const std::int64_t first = at < axis.size ? 0 : (at - axis.size) / axis.stride + 1;
  return {first, last < axis.out ? last : axis.out};
}

template <typename T>
__global__ void pool(PoolKind kind, std::int64_t n, Window w, const T* x, T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t channel = i % w.channels, column = i / w.channels % w.columns.out;
    const std::int64_t row = i / w.channels / w.columns.out % w.rows.out;
    const std::int64_t example = i / w.channels / w.columns.out / w.rows.out;
    const Span rows = seen_by(w.rows, row), columns = seen_by(w.columns, column);
    float sum = 0, largest = -INFINITY;
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      for (std::int64_t c = columns.first; c < columns.last; ++c) {
        const float value = to_float(x[((example * w.rows.in + r) * w.columns.in + c) * w.channels + channel]);
        sum += value;
        if (value > largest) largest = value;
      }
    }
    const auto count = static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
    y[i] = rounded_to<T>(kind == PoolKind::max ? largest : sum / count);
  }
}

/// Whether (row, column) is the first in its window that holds the maximum.
template <typename T>
__device__ bool is_first(const Window& w, Span rows, Span columns, std::int64_t row, std::int64_t column,
                         const T* plane, float maximum) {
  if (!(to_float(plane[(row * w.columns.in + column) * w.channels]) == maximum)) return false;
  for (std::int64_t r = rows.first; r <= row; ++r) {
    const std::int64_t end = r < row ? columns.last : column;
    for (std::int64_t c = columns.first; c < end; ++c) {
      if (to_float(plane[(r * w.columns.in + c) * w.channels]) == maximum) return false;
    }
  }
  return true;
}

template <typename T>
__global__ void pool_gradient(PoolKind kind, std::int64_t n, Window w, const T* x, const T* y, const T* dy, T* dx) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t channel = i % w.channels, column = i / w.channels % w.columns.in;
    const std::int64_t row = i / w.channels / w.columns.in % w.rows.in;
    const std::int64_t example = i / w.channels / w.columns.in / w.rows.in;
    const T* const plane = x == nullptr ? nullptr : x + example * w.rows.in * w.columns.in * w.channels + channel;
    const Span out_rows = seeing(w.rows, row), out_columns = seeing(w.columns, column);
    float sum = 0;
    for (std::int64_t r = out_rows.first; r < out_rows.last; ++r) {
      for (std::int64_t c = out_columns.first; c < out_columns.last; ++c) {
        const std::int64_t out = ((example * w.rows.out + r) * w.columns.out + c) * w.channels + channel;
        const Span rows = seen_by(w.rows, r), columns = seen_by(w.columns, c);
        if (kind == PoolKind::average) {
          sum += to_float(dy[out]) / static_cast<float>((rows.last - rows.first) * (columns.last - columns.first));
        } else if (is_first(w, rows, columns, row, column, plane, to_float(y[out]))) {
          sum += to_float(dy[out]);
        }
      }
    }
    dx[i] = rounded_to<T>(sum);
  }
}

template <typename T>
__global__ void average_planes(std::int64_t n, std::int64_t channels, std::int64_t pixels, const T* x, T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const T* const plane = x + i / channels * pixels * channels + i % channels;
    float sum = 0;
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) sum += to_float(plane[pixel * channels]);
    y[i] = rounded_to<T>(sum / static_cast<float>(pixels));
  }
}

template <typename T>
__global__ void spread_planes(std::int64_t n, std::int64_t channels, std::int64_t pixels, const T* dy, T* dx) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t example = i / channels / pixels;
    dx[i] = rounded_to<T>(to_float(dy[example * channels + i % channels]) / static_cast<float>(pixels));
  }
}

Window window_of(const PoolSpec& spec) {
  const Extent out = spec.out();
  const std::int64_t adaptive = spec.is_adaptive() ? 1 : 0;
  return {spec.in.channels,
          {spec.in.height, out.height, spec.height, spec.stride_height, spec.padding_height, adaptive},
          {spec.in.width, out.width, spec.width, spec.stride_width, spec.padding_width, adaptive}};
}

}  // namespace

void CudaBackend::pool_forward(const PoolSpec& spec, Index batch, View x, MutableView y) {
  const Index n = batch * spec.out().size();
  with_type([&]<typename T>(T) {
    queue().launch(pool<T>, grid_for(n), spec.kind, n, window_of(spec), values_of<T>(x), values_of<T>(y));
  });
}

void CudaBackend::pool_backward(const PoolSpec& spec, Index batch, View x, View y, View dy, MutableView dx) {
  const Index n = batch * spec.in.size();
  with_type([&]<typename T>(T) {
    queue().launch(pool_gradient<T>, grid_for(n), spec.kind, n, window_of(spec), values_of<T>(x), values_of<T>(y),
                   values_of<T>(dy), values_of<T>(dx));
  });
}

void CudaBackend::global_average_pool_forward(const Extent& extent, Index batch, View x, MutableView y) {
  const Index n = batch * extent.channels, pixels = extent.height * extent.width;
  with_type([&]<typename T>(T) {
    queue().launch(average_planes<T>, grid_for(n), n, extent.channels, pixels, values_of<T>(x), values_of<T>(y));
  });
}

void CudaBackend::global_average_pool_backward(const Extent& extent, Index batch, View dy, MutableView dx) {
  const Index n = batch * extent.size(), pixels = extent.height * extent.width;
  with_type([&]<typename T>(T) {
    queue().launch(spread_planes<T>, grid_for(n), n, extent.channels, pixels, values_of<T>(dy), values_of<T>(dx));
  });
}

}  // namespace unisono::kernels::cuda
