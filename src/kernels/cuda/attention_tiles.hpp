#pragma once

// What the kernels of attention are made of: products of tiles of 64 rows (queries, or keys with their values), by
// blocks of 16 × 16 threads, each of which computes 4 × 4 of 64 × 64 products.
#include "cuda/dropout_mask.hpp"

namespace unisono::kernels::cuda {

constexpr int kTile = 64;                    ///< rows of a tile
constexpr int kSide = 16;                    ///< threads of a block in each direction
constexpr int kOwn = kTile / kSide;          ///< rows, and columns, of a thread
constexpr int kTileThreads = kSide * kSide;  ///< of a block
constexpr int kChunk = 32;                   ///< slots that are multiplied at a time
constexpr int kFloatsOfRows = 4096;          ///< of the values that are multiplied at a time

using Four = Pack<float, kOwn>;

__device__ inline int thread_row() { return static_cast<int>(threadIdx.x) / kSide; }
__device__ inline int thread_column() { return static_cast<int>(threadIdx.x) % kSide; }

/// The largest value, and the sum, over the threads of a row.
__device__ inline float row_max(float value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}
__device__ inline float row_sum(float value) {
  for (int distance = kSide / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(kAllLanes, value, distance);
  return value;
}

/// AttentionSpec, as an argument of kernels.
struct AttentionShape {
  int rows, heads, key_heads, width, causal;

  __device__ int in() const { return (heads + 2 * key_heads) * width; }
  __device__ int out() const { return heads * width; }
  __device__ int tiles() const { return (rows + kTile - 1) / kTile; }
  __device__ int heads_of_key() const { return heads / key_heads; }
  __device__ bool sees(int query, int key) const { return key < rows && (causal == 0 || key <= query); }
  __device__ std::int64_t element(int head, int query, int key) const {
    return (static_cast<std::int64_t>(head) * rows + query) * rows + key;
  }
};

/// The cosine and sine of a rotary angle.
struct Turn {
  float cosine, sine;
};

/// The rows of one head in activations. Their D values are in kDepth slots: the first ⌈D/2⌉ at the beginning of the
/// first half, the others at the beginning of the second half, zeros behind them. So slots i and i + kDepth / 2 are a
/// pair of rotary positions, whatever D is.
template <typename T, int kDepth>
struct HeadRows {
  T* first;  ///< of row 0
  int stride, rows, width;
  const Turn* turns;  ///< [rows][D/2]; null: there are no rotary positions

  /// \param values rows of `stride` values, in which the head's begin at `head` · D
  __device__ HeadRows(const AttentionShape& shape, T* values, int stride_, int sequence, int head,
                      const Turn* turns_ = nullptr)
      : first(values + static_cast<std::int64_t>(sequence) * shape.rows * stride_ + head * shape.width),
        stride(stride_),
        rows(shape.rows),
        width(shape.width),
        turns(turns_) {}

  __device__ int half() const { return (width + 1) / 2; }

  __device__ T* row_at(int row) const { return first + static_cast<std::int64_t>(row) * stride; }
  __device__ Turn turn_at(int row, int i) const { return turns[static_cast<std::int64_t>(row) * half() + i]; }

  /// The value in a slot, turned by its row's angle; 0 behind the last row.
  __device__ float at(int row, int slot) const {
    const bool upper = slot >= kDepth / 2;
    const int i = upper ? slot - kDepth / 2 : slot, element = upper ? i + half() : i;
    if (row >= rows || i >= half() || element >= width) return 0;
    const T* const values = row_at(row);
    const float own = to_float(values[element]);
    if (turns == nullptr) return own;
    const Turn turn = turn_at(row, i);
    const float other = to_float(values[upper ? i : i + half()]);
    return own * turn.cosine + (upper ? other : -other) * turn.sine;
  }

  /// Stores the values of slots i and i + kDepth / 2, turned back.
  __device__ void put(int row, int i, float lower, float upper) const {
    if (row >= rows || i >= half()) return;
    T* const values = row_at(row);
    if (turns != nullptr) {
      const Turn turn = turn_at(row, i);
      const float turned = lower * turn.cosine + upper * turn.sine;
      upper = upper * turn.cosine - lower * turn.sine;
      lower = turned;
    }
    values[i] = rounded_to<T>(lower);
    if (i + half() < width) values[i + half()] = rounded_to<T>(upper);
  }
};

/// The shared memory of a block.
struct TileMemory {
  Four weights[kTile][kSide + 1];  ///< [column][row]: what the block has made of 64 × 64 products
  union {
    Four chunks[2][kChunk][kSide + 1];  ///< [slot][row] of two tiles
    float rows[kFloatsOfRows];          ///< [row][slot] of some rows
  };
};

/// A warp reads 4 rows of 8 slots: 32 bytes of each at least, which go to different banks.
template <typename T, int kDepth>
__device__ void load_chunk(const HeadRows<T, kDepth>& from, int first_row, int first_slot,
                           Four (&chunk)[kChunk][kSide + 1]) {
  constexpr int kSlots = 8;
  const int thread = static_cast<int>(threadIdx.x);
  for (int slot = thread % kSlots; slot < kChunk; slot += kSlots) {
    for (int row = thread / kSlots; row < kTile; row += kTileThreads / kSlots) {
      chunk[slot][row / kOwn].values[row % kOwn] = from.at(first_row + row, first_slot + slot);
    }
  }
}

/// products[i][j] = a · b, of the thread's row i of tile a and column j, which is a row of tile b.
template <typename A, typename B, int kDepth>
__device__ void multiply(const HeadRows<A, kDepth>& a, int first_a, const HeadRows<B, kDepth>& b, int first_b,
                         TileMemory& memory, float (&products)[kOwn][kOwn]) {
#pragma unroll
  for (int i = 0; i < kOwn * kOwn; ++i) products[i / kOwn][i % kOwn] = 0;
  for (int first_slot = 0; first_slot < kDepth; first_slot += kChunk) {
    __syncthreads();  // what was in the memory has been read
    load_chunk(a, first_a, first_slot, memory.chunks[0]);
    load_chunk(b, first_b, first_slot, memory.chunks[1]);
    __syncthreads();
#pragma unroll 8
    for (int slot = 0; slot < kChunk; ++slot) {
      const Four own = memory.chunks[0][slot][thread_row()], other = memory.chunks[1][slot][thread_column()];
#pragma unroll
      for (int i = 0; i < kOwn; ++i) {
#pragma unroll
        for (int j = 0; j < kOwn; ++j) products[i][j] += own.values[i] * other.values[j];
      }
    }
  }
}

/// Sums of a thread's rows over the columns, of slots thread_column() + 16 c.
template <int kDepth>
using Sums = float[kOwn][kDepth / kSide];

/// memory.weights = the threads' values.
__device__ inline void exchange(const float (&values)[kOwn][kOwn], TileMemory& memory) {
  __syncthreads();  // the weights before have been read
#pragma unroll
  for (int j = 0; j < kOwn; ++j) {
    Four column;
#pragma unroll
    for (int i = 0; i < kOwn; ++i) column.values[i] = values[i][j];
    memory.weights[kOwn * thread_column() + j][thread_row()] = column;
  }
}

/// sums[row] += Σ over columns of weights[column][row] · the column's values, in the order of the columns.
template <typename T, int kDepth>
__device__ void add_products(const HeadRows<T, kDepth>& from, int first_row, TileMemory& memory, Sums<kDepth>& sums) {
  constexpr int kAtATime = kFloatsOfRows / kDepth < kTile ? kFloatsOfRows / kDepth : kTile;
  for (int first = 0; first < kTile; first += kAtATime) {
    __syncthreads();  // weights have been written, and what was in the memory has been read
    for (int i = static_cast<int>(threadIdx.x); i < kAtATime * kDepth; i += kTileThreads) {
      memory.rows[i] = from.at(first_row + first + i / kDepth, i % kDepth);
    }
    __syncthreads();
#pragma unroll 4
    for (int row = 0; row < kAtATime; ++row) {
      const Four weights = memory.weights[first + row][thread_row()];
#pragma unroll
      for (int c = 0; c < kDepth / kSide; ++c) {
        const float value = memory.rows[row * kDepth + thread_column() + kSide * c];
#pragma unroll
        for (int i = 0; i < kOwn; ++i) sums[i][c] += weights.values[i] * value;
      }
    }
  }
}

/// Stores the sums of a tile's rows.
template <typename T, int kDepth>
__device__ void store(const HeadRows<T, kDepth>& to, int first_row, const Sums<kDepth>& sums) {
  constexpr int kPairs = kDepth / kSide / 2;
#pragma unroll
  for (int i = 0; i < kOwn; ++i) {
#pragma unroll
    for (int c = 0; c < kPairs; ++c) {
      to.put(first_row + kOwn * thread_row() + i, thread_column() + kSide * c, sums[i][c], sums[i][c + kPairs]);
    }
  }
}

}  // namespace unisono::kernels::cuda
