#pragma once

#include "cpu/loops_isa/fold.hpp"
#include "cpu/loops_isa/vector.hpp"

// Cholesky's factorization A = L Lᵀ of a matrix in columns of width + 16 floats, so that neighbouring columns do not
// compete for the same cache sets. Left-looking: each panel of columns is updated by all columns before it, with the
// tiles that sums of outer products use, and then factored in registers.

namespace unisono::kernels::cpu::UNISONO_ISA {

// Sums of outer products in the lower triangle of a symmetric matrix, one tile at a time in registers. Matrices are in
// columns, and their first rows are aligned.

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

inline constexpr float kSmallestPivot = 0x1p-20F;
static_assert(kLanes == kTileColumns || kLanes == 2 * kTileColumns);  // a panel begins in the first or the middle lane
inline constexpr std::int32_t kLaneNumbers[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Columns of a panel, in registers: kLanes rows of them.
struct CholeskyPanel {
  Vector columns[kTileColumns];
  float factors[kTileColumns][kTileColumns];  ///< [j][o]: how often column j is subtracted from column o > j
  float roots[kTileColumns];                  ///< with which the columns are multiplied in the end

  __attribute__((always_inline)) inline void load_rows(const float* at, Count stride) {
#pragma GCC unroll 8
    for (Count j = 0; j < kTileColumns; ++j) columns[j] = load(at + j * stride);
  }
  __attribute__((always_inline)) inline void store_rows(float* at, Count stride) const {
#pragma GCC unroll 8
    for (Count j = 0; j < kTileColumns; ++j) store(at + j * stride, broadcast(roots[j]) * columns[j]);
  }
};

/// The rows of the diagonal, which begins in lane `offset`. A pivot that is tiny beside its diagonal element in A
/// consists of rounding errors: its variable is left out, and stays 0. What is above the diagonal becomes 0.
/// \param inverses [kTileColumns] A_jj, which become 1 / L_jj
template <Count offset>
__attribute__((always_inline)) static inline void factor_diagonal(CholeskyPanel& panel, float* inverses) {
  const Integers numbers = load(kLaneNumbers);
#pragma GCC unroll 8
  for (Count j = 0; j < kTileColumns; ++j) {
    const float pivot = panel.columns[j][offset + j];
    const float inverse = pivot > kSmallestPivot * inverses[j] ? 1.0F / pivot : 0.0F;
#pragma GCC unroll 8
    for (Count o = j + 1; o < kTileColumns; ++o) {
      panel.factors[j][o] = panel.columns[j][offset + o] * inverse;
      panel.columns[o] -= broadcast(panel.factors[j][o]) * panel.columns[j];
    }
    panel.roots[j] = inverses[j] = __builtin_sqrtf(inverse);
    panel.columns[j] = keep(numbers >= static_cast<std::int32_t>(offset + j), panel.columns[j]);
  }
}

/// Columns [first, first + kTileColumns) of L, from those of A less what the columns before contribute. \param top the
/// first row of the registers that hold the diagonal
static inline void factor_panel(float* matrix, Count first, Count top, Count width, float* inverses) {
  const Count stride = width + 16;
  float* const panel_columns = matrix + first * stride;
  CholeskyPanel panel;
  panel.load_rows(panel_columns + top, stride);
  if (first == top) {
    factor_diagonal<0>(panel, inverses + first);
  } else {
    factor_diagonal<kLanes - kTileColumns>(panel, inverses + first);
  }
  panel.store_rows(panel_columns + top, stride);
  for (Count row = top + kLanes; row < width; row += kLanes) {
    panel.load_rows(panel_columns + row, stride);
#pragma GCC unroll 8
    for (Count j = 0; j < kTileColumns; ++j) {
#pragma GCC unroll 8
      for (Count o = j + 1; o < kTileColumns; ++o)
        panel.columns[o] -= broadcast(panel.factors[j][o]) * panel.columns[j];
    }
    panel.store_rows(panel_columns + row, stride);
  }
}

/// A = L Lᵀ, in place. What is above the diagonal in the registers of the diagonal becomes zero.
static inline void factor(float* matrix, Count columns, Count width, float* inverses) {
  const Count stride = width + 16;
  for (Count first = 0; first < columns; first += kTileColumns) {
    const Count top = first_row(first);
    if (first > 0) {
      strip<kTileColumns, Into::subtracted>({matrix, stride}, {matrix + first, stride}, first, top, width,
                                            matrix + first * stride, stride);
    }
    factor_panel(matrix, first, top, width, inverses);
  }
}

/// side ← L⁻¹ side, in place, a panel of columns at a time.
static inline void substitute_forward(const float* matrix, Count columns, Count width, const float* inverses,
                                      float* side) {
  const Count stride = width + 16;
  for (Count first = 0; first < columns; first += kTileColumns) {
    float y[kTileColumns];
#pragma GCC unroll 8
    for (Count j = 0; j < kTileColumns; ++j) {
      float rest = side[first + j];
#pragma GCC unroll 8
      for (Count k = 0; k < j; ++k) rest -= matrix[(first + k) * stride + first + j] * y[k];
      y[j] = rest * inverses[first + j];
    }
    for (Count row = first_row(first); row < width; row += kLanes) {
      Vector rest = load(side + row);
#pragma GCC unroll 8
      for (Count j = 0; j < kTileColumns; ++j) rest -= broadcast(y[j]) * load(matrix + (first + j) * stride + row);
      store(side + row, rest);
    }
#pragma GCC unroll 8
    for (Count j = 0; j < kTileColumns; ++j) side[first + j] = y[j];
  }
}

/// x = L⁻ᵀ y, likewise from the end. \param x [width], zero
static inline void substitute_backward(const float* matrix, Count columns, Count width, const float* inverses,
                                       const float* y, float* x) {
  const Count stride = width + 16;
  for (Count first = columns - kTileColumns; first >= 0; first -= kTileColumns) {
    Vector sums[kTileColumns] = {};
    for (Count row = first_row(first); row < width; row += kLanes) {
      const Vector known = load(x + row);
#pragma GCC unroll 8
      for (Count j = 0; j < kTileColumns; ++j) sums[j] += known * load(matrix + (first + j) * stride + row);
    }
    Vector totals[2];
    add_lanes<kTileColumns>(sums, totals);
    float z[kTileColumns];
#pragma GCC unroll 8
    for (Count j = kTileColumns - 1; j >= 0; --j) {
      float rest = y[first + j] - totals[0][j];
#pragma GCC unroll 8
      for (Count k = j + 1; k < kTileColumns; ++k) rest -= matrix[(first + j) * stride + first + k] * z[k];
      z[j] = rest * inverses[first + j];
    }
#pragma GCC unroll 8
    for (Count j = 0; j < kTileColumns; ++j) x[first + j] = z[j];
  }
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
