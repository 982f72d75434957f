// The gradient with respect to a ReLU's input, and that of a bias, in one pass over dy.
#include "cuda/column_sums.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr Index kRowsEachPart = 256;

/// Part p of the rows: partial[p][c] = Σ dy[row][c], after dy ← dy ⊙ (y > 0).
template <typename T>
__global__ void mask_and_sum_parts(std::int64_t rows, std::int64_t channels, const T* y, T* dy, float* partial) {
  const std::int64_t channel = column_number();
  const RowsOfPart own(rows);
  float sum = 0;
  if (channel < channels) {
    for (std::int64_t row = own.first + threadIdx.y; row < own.last; row += kAhead * kRowsOfBlock) {
      float gradients[kAhead];
      bool passes[kAhead];
      for (int j = 0; j < kAhead; ++j) {
        const std::int64_t there = row + j * kRowsOfBlock, at = there * channels + channel;
        const bool is_own = there < own.last;
        gradients[j] = is_own ? to_float(dy[at]) : 0;
        passes[j] = !is_own || y == nullptr || to_float(y[at]) > 0;
      }
      for (int j = 0; j < kAhead; ++j) {
        if (passes[j]) {
          sum += gradients[j];
        } else {
          dy[(row + j * kRowsOfBlock) * channels + channel] = rounded_to<T>(0);
        }
      }
    }
  }
  sum = column_sum(sum);
  if (threadIdx.y > 0 || channel >= channels || partial == nullptr) return;
  partial[static_cast<std::int64_t>(blockIdx.y) * channels + channel] = sum;
}

/// db[c] (+)= Σ over parts.
__global__ void add_parts(std::int64_t channels, std::int64_t parts, const float* partial, bool adds, float* db) {
  const std::int64_t channel = column_number();
  const float total = sum_of_parts(parts, channels, partial);
  if (threadIdx.y > 0 || channel >= channels) return;
  db[channel] = (adds ? db[channel] : 0) + total;
}

}  // namespace

void CudaBackend::mask_and_sum(Index rows, Index channels, View y, MutableView dy, MutableView db, Write write) {
  if (y.empty() && db.empty()) return;
  const Index parts = parts_of_rows(rows, kRowsEachPart);
  float* const partial = db.empty() ? nullptr : partials_.take<float>(parts * channels);
  with_type([&]<typename T>(T) {
    queue().launch(mask_and_sum_parts<T>, grid_of_columns(channels, parts), rows, channels, values_of<T>(y),
                   values_of<T>(dy), partial);
  });
  if (db.empty()) return;
  queue().launch(add_parts, grid_of_columns(channels), channels, parts, partial, write == Write::add, db.data());
}

}  // namespace unisono::kernels::cuda
