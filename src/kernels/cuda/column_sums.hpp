#pragma once

// Sums over the rows of [rows, columns]: a block of 32 columns × 8 rows of threads has a part of the rows, and what the
// parts come to is added up in an order that depends on the shape alone.
#include "cuda/grid.hpp"

namespace unisono::kernels::cuda {

constexpr unsigned kColumns = 32, kRowsOfBlock = 8;  ///< threads
/// Rows that a thread reads before it writes to one of them: the reads need not wait for one another.
constexpr int kAhead = 4;

/// Σ over a column's threads of a block, in those of its first row. All threads of the block take part.
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

/// The column that a thread works on, among all of the grid's.
__device__ inline std::int64_t column_number() {
  return static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
}

/// The part of the rows that a block has.
struct RowsOfPart {
  std::int64_t first, last;
  __device__ explicit RowsOfPart(std::int64_t rows)
      : first(rows * blockIdx.y / gridDim.y), last(rows * (blockIdx.y + 1) / gridDim.y) {}
};

/// Σ over parts of partial[part][column], in the threads of the first row. All threads of the block take part.
template <typename T>
__device__ T sum_of_parts(std::int64_t parts, std::int64_t columns, const T* partial) {
  const std::int64_t column = column_number();
  T sum = 0;
  if (column < columns) {
    for (std::int64_t part = threadIdx.y; part < parts; part += kRowsOfBlock) sum += partial[part * columns + column];
  }
  return column_sum(sum);
}

/// Of `parts` blocks for every 32 columns.
inline Grid grid_of_columns(Index columns, Index parts = 1) {
  return {.blocks = dim3(blocks_for(columns, kColumns), static_cast<unsigned>(parts)),
          .threads = dim3(kColumns, kRowsOfBlock)};
}

/// As many parts as rows are worth, and few enough to be added up at once.
inline Index parts_of_rows(Index rows, Index rows_of_part) {
  constexpr Index kMostParts = 256;
  return std::min<Index>(kMostParts, blocks_for(rows, rows_of_part));
}

}  // namespace unisono::kernels::cuda
