// Alternating least squares: each row of one table minimises a quadratic function of its own, the other table fixed.
//     (G + Σ w q qᵀ + λ I) p = Σ y q
//   The rows q are gathered in blocks that stay in the first-level cache, and their outer products are added up tile by
//   tile of the lower triangle in registers: on AVX-512 a tile is 8 columns of up to 3 registers. The same tiles update
//   a panel of columns of Cholesky's factorization with all columns before it (left-looking). Sums of a block are
//   complete before they are added to the matrix: rounding errors grow with the block and with the number of blocks,
//   not with the number of rows.
// Matrices are in columns of width + 16 floats, so that neighbouring columns do not compete for the same cache sets.
#include "cpu/loops_isa/cholesky.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

constexpr Count kAhead = 8;  ///< how many rows ahead are prefetched

/// The lower triangle of C (+)= Σ x yᵀ, K columns.
template <Into into>
void add_triangle(VectorRows x, VectorRows y, Count count, const FactorTable& table, float* c) {
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
  const VectorRows left{work.gathered, stride},
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
    const VectorRows sides{work.targets, 2};
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
    const VectorRows rows{table.values + start * table.stride, table.stride};
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
