// Pooling. Each output, and each input's gradient, is computed by a single thread, so no atomics are needed.
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {
namespace {

struct Window {
  std::int64_t channels, in_height, in_width, out_height, out_width;
  std::int64_t height, width, stride_height, stride_width, padding_height, padding_width;
  std::int64_t adaptive;  ///< 1: see PoolSpec::out_height
};

/// The rows, or the columns, of an input that one output sees.
struct Span {
  std::int64_t first, last;
};
__device__ Span seen_by(std::int64_t out, std::int64_t stride, std::int64_t padding, std::int64_t window,
                        std::int64_t in) {
  const std::int64_t first = out * stride - padding, last = first + window;
  return {first < 0 ? 0 : first, last < in ? last : in};
}
__device__ Span part_of(std::int64_t number, std::int64_t of, std::int64_t size) {
  return {number * size / of, ((number + 1) * size + of - 1) / of};
}
__device__ Span rows_seen_by(const Window& w, std::int64_t row) {
  return w.adaptive != 0 ? part_of(row, w.out_height, w.in_height)
                         : seen_by(row, w.stride_height, w.padding_height, w.height, w.in_height);
}
__device__ Span columns_seen_by(const Window& w, std::int64_t column) {
  return w.adaptive != 0 ? part_of(column, w.out_width, w.in_width)
                         : seen_by(column, w.stride_width, w.padding_width, w.width, w.in_width);
}
/// The outputs that see a row, or a column.
__device__ Span seeing(std::int64_t in, std::int64_t stride, std::int64_t padding, std::int64_t window,
                       std::int64_t outs) {
  const std::int64_t at = in + padding, last = at / stride + 1;
  const std::int64_t first = at < window ? 0 : (at - window) / stride + 1;
  return {first, last < outs ? last : outs};
}
__device__ Span rows_seeing(const Window& w, std::int64_t row) {
  return w.adaptive != 0 ? part_of(row, w.in_height, w.out_height)
                         : seeing(row, w.stride_height, w.padding_height, w.height, w.out_height);
}
__device__ Span columns_seeing(const Window& w, std::int64_t column) {
  return w.adaptive != 0 ? part_of(column, w.in_width, w.out_width)
                         : seeing(column, w.stride_width, w.padding_width, w.width, w.out_width);
}

template <typename T>
__global__ void pool(PoolKind kind, std::int64_t n, Window w, const T* x, T* y) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t channel = i % w.channels, column = i / w.channels % w.out_width;
    const std::int64_t row = i / w.channels / w.out_width % w.out_height;
    const std::int64_t example = i / w.channels / w.out_width / w.out_height;
    const Span rows = rows_seen_by(w, row), columns = columns_seen_by(w, column);
    float sum = 0, largest = -INFINITY;
    for (std::int64_t r = rows.first; r < rows.last; ++r) {
      for (std::int64_t c = columns.first; c < columns.last; ++c) {
        const float value = to_float(x[((example * w.in_height + r) * w.in_width + c) * w.channels + channel]);
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
  if (!(to_float(plane[(row * w.in_width + column) * w.channels]) == maximum)) return false;
  for (std::int64_t r = rows.first; r <= row; ++r) {
    const std::int64_t end = r < row ? columns.last : column;
    for (std::int64_t c = columns.first; c < end; ++c) {
      if (to_float(plane[(r * w.in_width + c) * w.channels]) == maximum) return false;
    }
  }
  return true;
}

template <typename T>
__global__ void pool_gradient(PoolKind kind, std::int64_t n, Window w, const T* x, const T* y, const T* dy, T* dx) {
  for (std::int64_t i = thread_number(); i < n; i += threads_of_grid()) {
    const std::int64_t channel = i % w.channels, column = i / w.channels % w.in_width;
    const std::int64_t row = i / w.channels / w.in_width % w.in_height;
    const std::int64_t example = i / w.channels / w.in_width / w.in_height;
    const T* const plane = x == nullptr ? nullptr : x + example * w.in_height * w.in_width * w.channels + channel;
    const Span out_rows = rows_seeing(w, row), out_columns = columns_seeing(w, column);
    float sum = 0;
    for (std::int64_t r = out_rows.first; r < out_rows.last; ++r) {
      for (std::int64_t c = out_columns.first; c < out_columns.last; ++c) {
        const std::int64_t out = ((example * w.out_height + r) * w.out_width + c) * w.channels + channel;
        const Span rows = rows_seen_by(w, r), columns = columns_seen_by(w, c);
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
  return {spec.in.channels,  spec.in.height,      spec.in.width,      out.height,
          out.width,         spec.height,         spec.width,         spec.stride_height,
          spec.stride_width, spec.padding_height, spec.padding_width, spec.is_adaptive() ? 1 : 0};
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
