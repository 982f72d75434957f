#pragma once

// Sums over the rows of a matrix [rows, columns]: a block of 32 × 8 threads sums 32 columns of one part of the rows.
// The sums of the parts are added in an order that depends only on the shape.
#include "cuda/device_code.hpp"

namespace unisono::kernels::cuda {

constexpr unsigned kColumns = 32, kRowsOfBlock = 8;  ///< threads
/// Rows that a thread reads before it writes to one of them: the reads need not wait for one another.
constexpr int kAhead = 4;

/// The sum of `own` over the threads of a block that have the same threadIdx.x. Only threads of the first row get it,
/// the others get 0. All threads of the block must call it.
template <typename T>
__device__ T column_sum(T own) {
  __shared__ T sums[kRowsOfBlock][kColumns];
  __syncthreads();  // the sums before have been read
  sums[threadIdx.y][threadIdx.x] = own;
  __syncthreads();
  T total = 0;
  if (threadIdx.y > 0) return total;
  for (unsigned row = 0; row < kRowsOfBlock; ++row) total += sums[row][threadIdx.x];
  return total;
}

/// The column that a thread works on, counted over the whole grid.
__device__ inline std::int64_t column_number() {
  return static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
}

/// The rows [first, last) that a block sums.
struct RowsOfPart {
  std::int64_t first, last;
  __device__ explicit RowsOfPart(std::int64_t rows)
      : first(rows * blockIdx.y / gridDim.y), last(rows * (blockIdx.y + 1) / gridDim.y) {}
};

/// Σ over parts of partial[part][column], for threads of the first row. All threads of the block must call it.
template <typename T>
__device__ T sum_of_parts(std::int64_t parts, std::int64_t columns, const T* partial) {
  const std::int64_t column = column_number();
  T sum = 0;
  if (column < columns) {
    for (std::int64_t part = threadIdx.y; part < parts; part += kRowsOfBlock) sum += partial[part * columns + column];
  }
  return column_sum(sum);
}

/// A grid of `parts` blocks for every 32 columns.
inline Grid grid_of_columns(Index columns, Index parts = 1) {
  return {.blocks = dim3(blocks_for(columns, kColumns), static_cast<unsigned>(parts)),
          .threads = dim3(kColumns, kRowsOfBlock)};
}

/// How many parts to cut rows into: one for each `rows_of_part`, but few enough for one block to add them up.
inline Index parts_of_rows(Index rows, Index rows_of_part) {
  constexpr Index kMostParts = 256;
  return std::min<Index>(kMostParts, blocks_for(rows, rows_of_part));
}

}  // namespace unisono::kernels::cuda
