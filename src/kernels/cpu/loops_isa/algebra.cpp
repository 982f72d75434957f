#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

void squared_norm(const float* x, Count n, double* sum) {
  SquareSum squares;
  squares.add(x, n);
  squares.store(sum);
}

/// Four parts at once, each summed by itself: four streams from memory are 1.7 times as fast as one. The order of the
/// additions depends only on n.
double dot(const float* x, const float* y, Count n) {
  constexpr Count kParts = 4, kLength = kLanes / 2;
  const Count part = n / kParts / kLength * kLength;
  Doubles sums[kParts] = {};
  for (Count i = 0; i < part; i += kLength) {
    for (Count j = 0; j < kParts; ++j) sums[j] += load_doubles(x + j * part + i) * load_doubles(y + j * part + i);
  }
  const Doubles sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  double result = 0;
  for (Count i = 0; i < kLength; ++i) result += sum[i];
  for (Count i = kParts * part; i < n; ++i) result += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return result;
}

void axpby(float a, const float* x, float b, float* y, Count n) {
  if (b == 0.0F) {
#pragma omp simd
    for (Count i = 0; i < n; ++i) y[i] = a * x[i];
  } else {
#pragma omp simd
    for (Count i = 0; i < n; ++i) y[i] = a * x[i] + b * y[i];
  }
}

}  // namespace

void add_algebra(Loops& loops) { loops.algebra = {squared_norm, dot, axpby}; }

// C += Σ_r A_r B_rᵀ along the lanes, for matrices too small to be worth transposing: a tile of C has one register for
// each value, whose lanes are added up at the end.

namespace {

#if defined(__AVX512F__)  // 32 registers
constexpr Count kRows = 4, kColumns = 6;
#else  // 16 registers
constexpr Count kRows = 2, kColumns = 4;
#endif

template <Count rows, Count columns>
void tile(const DotShape& shape, const float* const* a, const float* const* b, Count count, Count row, Count column,
          float* c) {
  Vector sums[rows][columns] = {};
  for (Count r = 0; r < count; ++r) {
    const float* upper = a[r] + row * shape.width;
    const float* left = b[r] + column * shape.width;
    for (Count lane = 0; lane < shape.width; lane += kLanes) {
      Vector values[rows];
#pragma GCC unroll 4
      for (Count i = 0; i < rows; ++i) values[i] = load(upper + i * shape.width + lane);
#pragma GCC unroll 6
      for (Count j = 0; j < columns; ++j) {
        const Vector value = load(left + j * shape.width + lane);
#pragma GCC unroll 4
        for (Count i = 0; i < rows; ++i) sums[i][j] += values[i] * value;
      }
    }
  }
  Vector totals[(rows * columns + kLanes - 1) / kLanes];
  add_lanes<rows * columns>(&sums[0][0], totals);
  for (Count i = 0; i < rows; ++i) {
    for (Count j = 0; j < columns; ++j)
      c[(row + i) * shape.ldc + column + j] += totals[(i * columns + j) / kLanes][(i * columns + j) % kLanes];
  }
}

template <Count rows, Count most>
void tile_of(Count columns, const DotShape& shape, const float* const* a, const float* const* b, Count count, Count row,
             Count column, float* c) {
  if constexpr (most > 1) {
    if (columns < most) return tile_of<rows, most - 1>(columns, shape, a, b, count, row, column, c);
  }
  tile<rows, most>(shape, a, b, count, row, column, c);
}

template <Count most>
void row_of_tiles(Count rows, const DotShape& shape, const float* const* a, const float* const* b, Count count,
                  Count row, float* c) {
  if constexpr (most > 1) {
    if (rows < most) return row_of_tiles<most - 1>(rows, shape, a, b, count, row, c);
  }
  for (Count column = 0; column < shape.n; column += kColumns) {
    const Count columns = shape.n - column < kColumns ? shape.n - column : kColumns;
    tile_of<most, kColumns>(columns, shape, a, b, count, row, column, c);
  }
}

void dots(const DotShape& shape, const float* const* a, const float* const* b, Count count, float* c) {
  for (Count row = 0; row < shape.m; row += kRows) {
    row_of_tiles<kRows>(shape.m - row < kRows ? shape.m - row : kRows, shape, a, b, count, row, c);
  }
}

}  // namespace

void add_dots(Loops& loops) { loops.dots = dots; }

// Transposing matrices of floats, a tile of kLanes × kLanes values at a time.

namespace {

inline void transpose_tile(const float* in, Count in_stride, float* out, Count out_stride) {
  Vector rows[kLanes];
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) rows[i] = load(in + i * in_stride);
  transpose_registers(rows);
#pragma GCC unroll 16
  for (Count i = 0; i < kLanes; ++i) store(out + i * out_stride, rows[i]);
}

/// A tile at the lower or right border. \pre height, width ≤ kLanes
void transpose_border(Count height, Count width, const float* in, Count in_stride, float* out, Count out_stride) {
  Vector rows[kLanes] = {};
  for (Count i = 0; i < height; ++i) rows[i] = load_first(in + i * in_stride, width);
  transpose_registers(rows);
  for (Count j = 0; j < width; ++j) store_first(out + j * out_stride, rows[j], height);
}

void transpose(Count rows, Count columns, const float* in, Count in_stride, float* out, Count out_stride) {
  for (Count i = 0; i < rows; i += kLanes) {
    const Count height = rows - i < kLanes ? rows - i : kLanes;
    for (Count j = 0; j < columns; j += kLanes) {
      const Count width = columns - j < kLanes ? columns - j : kLanes;
      const float* from = in + i * in_stride + j;
      float* to = out + j * out_stride + i;
      if (height == kLanes && width == kLanes) {
        transpose_tile(from, in_stride, to, out_stride);
      } else {
        transpose_border(height, width, from, in_stride, to, out_stride);
      }
    }
  }
}

}  // namespace

void add_transpose(Loops& loops) { loops.transpose = transpose; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
