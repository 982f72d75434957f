// The gradient behind a ReLU, and that of a bias, in one pass over dy.
#include "cuda/grid.hpp"

namespace unisono::cuda {
namespace {

constexpr unsigned kColumns = 32, kRowsOfBlock = 8;  // threads
constexpr Index kRowsOfPart = 256, kMostParts = 64;

/// Part p of the rows: partial[p][c] = Σ dy[row][c], after dy ← dy ⊙ (y > 0).
template <typename T>
__global__ void mask_and_sum_parts(std::int64_t rows, std::int64_t channels, const T* y, T* dy, float* partial) {
  __shared__ float sums[kRowsOfBlock][kColumns];
  const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const std::int64_t first = rows * blockIdx.y / gridDim.y, last = rows * (blockIdx.y + 1) / gridDim.y;
  float sum = 0;
  if (channel < channels) {
    for (std::int64_t row = first + threadIdx.y; row < last; row += kRowsOfBlock) {
      const std::int64_t at = row * channels + channel;
      float value = to_float(dy[at]);
      if (y != nullptr && !(to_float(y[at]) > 0)) {
        value = 0;
        dy[at] = rounded_to<T>(0);
      }
      sum += value;
    }
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || channel >= channels || partial == nullptr) return;
  float total = 0;
  for (unsigned row = 0; row < kRowsOfBlock; ++row) total += sums[row][threadIdx.x];
  partial[static_cast<std::int64_t>(blockIdx.y) * channels + channel] = total;
}

/// db[c] (+)= Σ over parts.
__global__ void add_parts(std::int64_t channels, std::int64_t parts, const float* partial, bool adds, float* db) {
  const std::int64_t channel = thread_number();
  if (channel >= channels) return;
  float total = adds ? db[channel] : 0;
  for (std::int64_t part = 0; part < parts; ++part) total += partial[part * channels + channel];
  db[channel] = total;
}

}  // namespace

void CudaBackend::mask_and_sum(Index rows, Index channels, View y, MutableView dy, MutableView db, Write write) {
  if (y.empty() && db.empty()) return;
  const Index parts = std::min<Index>(kMostParts, blocks_for(rows, kRowsOfPart));
  float* const partial = db.empty() ? nullptr : partials_.take<float>(parts * channels);
  const Grid grid{.blocks = dim3(blocks_for(channels, kColumns), static_cast<unsigned>(parts)),
                  .threads = dim3(kColumns, kRowsOfBlock)};
  with_type([&]<typename T>(T) {
    queue().launch(mask_and_sum_parts<T>, grid, rows, channels, values_of<T>(y), values_of<T>(dy), partial);
  });
  if (db.empty()) return;
  queue().launch(add_parts, {.blocks = blocks_for(channels, kBlock), .threads = kBlock}, channels, parts, partial,
                 write == Write::add, db.data());
}

}  // namespace unisono::cuda
