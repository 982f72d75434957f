#pragma once

#include "cpu/loops_isa/vector.hpp"

// Sums of outer products in the lower triangle of a symmetric matrix, one tile at a time in registers. Matrices are in
// columns, and their first rows are aligned.

namespace unisono::kernels::cpu::UNISONO_ISA {

#if defined(__AVX512F__)
inline constexpr Count kTileColumns = 8;  // of a tile: with 3 registers high, 24 sums of 32 registers
#else
inline constexpr Count kTileColumns = 4;  // 12 of 16
#endif
inline constexpr Count kTileHeight = 3;

/// Row i of a matrix begins at values + i · stride.
struct VectorRows {
  const float* values;
  Count stride;
};

enum class Into { overwritten, added, subtracted };

/// c[j · ldc + i] (±)= Σ_r x_r[i] y_r[j] for `vectors` registers of i and `columns` of j.
template <Count vectors, Count columns, Into into>
__attribute__((always_inline)) static inline void tile(VectorRows x, VectorRows y, Count count, float* c, Count ldc) {
  Vector sums[columns][vectors] = {};
  const float *left = x.values, *right = y.values;
  for (Count r = 0; r < count; ++r, left += x.stride, right += y.stride) {
    Vector values[vectors];
#pragma GCC unroll 4
    for (Count v = 0; v < vectors; ++v) values[v] = load(left + v * kLanes);
#pragma GCC unroll 8
    for (Count j = 0; j < columns; ++j) {
      const Vector factor = broadcast(right[j]);
#pragma GCC unroll 4
      for (Count v = 0; v < vectors; ++v) sums[j][v] += values[v] * factor;
    }
  }
#pragma GCC unroll 8
  for (Count j = 0; j < columns; ++j) {
#pragma GCC unroll 4
    for (Count v = 0; v < vectors; ++v) {
      float* const at = c + j * ldc + v * kLanes;
      if (into == Into::overwritten) store(at, sums[j][v]);
      if (into == Into::added) store(at, load(at) + sums[j][v]);
      if (into == Into::subtracted) store(at, load(at) - sums[j][v]);
    }
  }
}

/// The same for rows [row, end) of c, `end − row` a multiple of kLanes.
template <Count columns, Into into>
static inline void strip(VectorRows x, VectorRows y, Count count, Count row, Count end, float* c, Count ldc) {
  while (row < end) {
    const Count left = (end - row) / kLanes;
    const VectorRows here{x.values + row, x.stride};
    if (left >= 3 && left != 4) {
      tile<kTileHeight, columns, into>(here, y, count, c + row, ldc);
      row += kTileHeight * kLanes;
    } else if (left >= 2) {
      tile<2, columns, into>(here, y, count, c + row, ldc);
      row += 2 * kLanes;
    } else {
      tile<1, columns, into>(here, y, count, c + row, ldc);
      row += kLanes;
    }
  }
}

static constexpr Count whole_columns(Count rank) { return (rank + kTileColumns - 1) / kTileColumns * kTileColumns; }
static constexpr Count first_row(Count column) { return column / kLanes * kLanes; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
