// C += Σ_r A_r B_rᵀ along the lanes, for matrices too small to be worth transposing: a tile of C has one register for
// each value, whose lanes are added up at the end.
#include "cpu/loops_isa/fold.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
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

}  // namespace unisono::kernels::cpu::UNISONO_ISA
