// Alternating least squares: each row of one table minimises a quadratic function of its own, the other table fixed.
//     (G + Σ w q qᵀ + λ I) p = Σ y q
//   The rows q are gathered in blocks that stay in the first-level cache, and their outer products are added up tile by
//   tile of the lower triangle in registers: on AVX-512 a tile is 8 columns of up to 3 registers. The same tiles update
//   a panel of columns of Cholesky's factorization with all columns before it (left-looking). Sums of a block are
//   complete before they are added to the matrix: rounding errors grow with the block and with the number of blocks,
//   not with the number of rows.
// Matrices are in columns of width + 16 floats, so that neighbouring columns do not compete for the same cache sets.
#include "cpu/loops_isa/table.hpp"

#include "cpu/loops_isa/sums.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

// Sums of outer products in the lower triangle of a symmetric matrix, one tile at a time in registers. Matrices are in
// columns, and their first rows are aligned.

#if defined(__AVX512F__)
inline constexpr Count kTileColumns = 8;  // of a tile: with 3 registers high, 24 sums of 32 registers
#else
inline constexpr Count kTileColumns = 4;  // 12 of 16
#endif
inline constexpr Count kTileHeight = 3;

/// Row i of a matrix begins at values + i · stride.
struct StridedRows {
  const float* values;
  Count stride;
};

enum class Into { overwritten, added, subtracted };

/// c[j · ldc + i] (±)= Σ_r x_r[i] y_r[j] for `vectors` registers of i and `columns` of j.
template <Count vectors, Count columns, Into into>
__attribute__((always_inline)) static inline void tile(StridedRows x, StridedRows y, Count count, float* c, Count ldc) {
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
static inline void strip(StridedRows x, StridedRows y, Count count, Count row, Count end, float* c, Count ldc) {
  while (row < end) {
    const Count left = (end - row) / kLanes;
    const StridedRows here{x.values + row, x.stride};
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

// Cholesky's factorization A = L Lᵀ. Left-looking: each panel of columns is updated by all columns before it, with the
// tiles that sums of outer products use, and then factored in registers.

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

constexpr Count kAhead = 8;  ///< how many rows ahead are prefetched

/// The lower triangle of C (+)= Σ x yᵀ, K columns.
template <Into into>
void add_triangle(StridedRows x, StridedRows y, Count count, const FactorTable& table, float* c) {
  const Count ldc = table.width + 16;
  for (Count column = 0; column < whole_columns(table.rank); column += kTileColumns) {
    strip<kTileColumns, into>(x, {y.values + column, y.stride}, count, first_row(column), table.width, c + column * ldc,
                              ldc);
  }
}

/// The parts of a solver's scratch.
struct Work {
  float* matrix;    ///< [width][width + 16]: A, then L, in columns
  float* gathered;  ///< [block][width + 16]
  float* weighted;  ///< the same times w
  float* targets;   ///< [block][2]: y and 1
  float* sides;     ///< [2][width + 16]: Σ y q and Σ q, then L⁻¹ of these
  float* inverses;  ///< [width + 16] 1 / L_jj
  float* solution;  ///< [width + 16]

  Work(float* scratch, Count width) {
    const Count stride = width + 16, block = least_squares_block(width);
    matrix = scratch;
    gathered = matrix + width * stride;
    weighted = gathered + block * stride;
    sides = weighted + block * stride;
    inverses = sides + 2 * stride;
    solution = inverses + stride;
    targets = solution + stride;
  }
};

inline const float* row_of(const FactorTable& table, std::uint32_t i) {
  return table.values + static_cast<Count>(i) * table.stride;
}

inline void fetch(const float* row, Count width) {
  for (Count at = 0; at < width; at += 16) __builtin_prefetch(row + at);
}

/// Copies rows [first, first + some) of the problem together, and their multiples.
void gather(const FactorTable& table, const NormalEquations& equations, Count first, Count some, const Work& work) {
  const Count stride = table.width + 16;
  for (Count r = 0; r < some; ++r) {
    const Count ahead = first + r + kAhead;
    if (ahead < equations.count) fetch(row_of(table, equations.rows[ahead]), table.width);
    const float* const from = row_of(table, equations.rows[first + r]);
    float* const to = work.gathered + r * stride;
    for (Count at = 0; at < table.width; at += kLanes) store(to + at, load(from + at));
    work.targets[2 * r] = equations.targets[first + r];
    work.targets[2 * r + 1] = 1;
    if (equations.weights == nullptr) continue;
    const Vector weight = broadcast(equations.weights[first + r]);
    float* const multiple = work.weighted + r * stride;
    for (Count at = 0; at < table.width; at += kLanes) store(multiple + at, weight * load(from + at));
  }
}

/// A = G + Σ w q qᵀ + λ I, and the right-hand sides. \pre there is a row
void add_up(const FactorTable& table, const NormalEquations& equations, const Work& work) {
  const Count stride = table.width + 16, block = least_squares_block(table.width);
  const Count columns = whole_columns(table.rank);
  const StridedRows left{work.gathered, stride},
      right{equations.weights != nullptr ? work.weighted : work.gathered, stride};
  for (Count at = 0; equations.gram != nullptr && at < columns * stride; at += kLanes) {
    store(work.matrix + at, load(equations.gram + at));
  }
  for (Count first = 0; first < equations.count; first += block) {
    const Count some = equations.count - first < block ? equations.count - first : block;
    gather(table, equations, first, some, work);
    if (first == 0 && equations.gram == nullptr) {
      add_triangle<Into::overwritten>(left, right, some, table, work.matrix);
    } else {
      add_triangle<Into::added>(left, right, some, table, work.matrix);
    }
    const StridedRows sides{work.targets, 2};
    if (first == 0) {
      strip<2, Into::overwritten>(left, sides, some, 0, table.width, work.sides, stride);
    } else {
      strip<2, Into::added>(left, sides, some, 0, table.width, work.sides, stride);
    }
  }
  for (Count j = 0; j < columns; ++j) {
    work.matrix[j * stride + j] += equations.l2;
    work.inverses[j] = work.matrix[j * stride + j];
  }
}

/// The bias is the last variable: its row of L is l = L⁻¹ Σ q, and its pivot d² = n + λ − ‖l‖². \return b
float bias_of(const NormalEquations& equations, const float* y, const float* l, Count columns) {
  double target = 0, square = 0, product = 0;
  for (Count r = 0; r < equations.count; ++r) target += static_cast<double>(equations.targets[r]);
  for (Count j = 0; j < columns; ++j) {
    square += static_cast<double>(l[j]) * static_cast<double>(l[j]);
    product += static_cast<double>(l[j]) * static_cast<double>(y[j]);
  }
  const auto l2 = static_cast<double>(equations.l2);
  const double pivot = static_cast<double>(equations.count) + l2 - square;
  return static_cast<float>((target - product) / (pivot > l2 ? pivot : l2));
}

void solve(const FactorTable& table, const NormalEquations& equations, float* scratch, float* factors, float* bias) {
  const Count width = table.width, stride = width + 16, columns = whole_columns(table.rank);
  const Work work(scratch, width);
  add_up(table, equations, work);
  factor(work.matrix, columns, width, work.inverses);
  float* const y = work.sides;
  substitute_forward(work.matrix, columns, width, work.inverses, y);
  if (equations.bias) {
    float* const l = work.sides + stride;
    substitute_forward(work.matrix, columns, width, work.inverses, l);
    *bias = bias_of(equations, y, l, columns);
    for (Count at = 0; at < columns; ++at) y[at] -= *bias * l[at];
  }
  for (Count at = 0; at < stride; at += kLanes) store(work.solution + at, Vector{});
  substitute_backward(work.matrix, columns, width, work.inverses, y, work.solution);
  for (Count at = 0; at < width; at += kLanes) store(factors + at, load(work.solution + at));
}

void add_gram(const FactorTable& table, Count first, Count last, float* gram) {
  const Count block = least_squares_block(table.width);
  for (Count start = first; start < last; start += block) {
    const StridedRows rows{table.values + start * table.stride, table.stride};
    add_triangle<Into::added>(rows, rows, last - start < block ? last - start : block, table, gram);
  }
}

/// p · row
__attribute__((always_inline)) inline Vector partial_products(const float* row, const float* p, Count width) {
  Vector sum = load(p) * load(row);
  for (Count at = kLanes; at < width; at += kLanes) sum += load(p + at) * load(row + at);
  return sum;
}

/// As many products as registers have lanes, folded together.
void products(const FactorTable& table, const std::uint32_t* rows, Count count, const float* p, float* to) {
  Count first = 0;
  for (; first + kLanes <= count; first += kLanes) {
    Vector sums[kLanes], total;
#pragma GCC unroll 16
    for (Count r = 0; r < kLanes; ++r) {
      const Count ahead = first + r + kLanes;
      fetch(row_of(table, rows[ahead < count ? ahead : count - 1]), table.width);
      sums[r] = partial_products(row_of(table, rows[first + r]), p, table.width);
    }
    add_lanes<kLanes>(sums, &total);
    store(to + first, total);
  }
  for (; first < count; ++first) {
    to[first] = add_all_lanes(partial_products(row_of(table, rows[first]), p, table.width))[0];
  }
}

}  // namespace

void add_least_squares(Loops& loops) {
  loops.least_squares = {.solve = solve, .add_gram = add_gram, .products = products};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
