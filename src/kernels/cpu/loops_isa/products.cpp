// Products of matrices, C = [C +] Σ_r A_r B_r, a tile of C in registers at a time: each step of k loads a column of the
// tile's part of A, broadcasts the values of a row of B, and adds their outer product (Goto and van de Geijn, ACM TOMS
// 34(3), 2008). On AVX-512, a step of the widest tile is 4 loads and 6 broadcasts for 24 multiply-adds.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::cpu::UNISONO_ISA {
namespace {

#if defined(__AVX512F__)  // 32 registers
constexpr Count kTallest = 4;
constexpr Count widest(Count vectors) { return 24 / vectors; }
#else  // 16 registers
constexpr Count kTallest = 2;
constexpr Count widest(Count vectors) { return vectors == 2 ? 6 : 12; }
#endif

constexpr Count kPrefetchFloats = 32;  ///< two cache lines: about 5 tiles of 6 columns ahead

constexpr Count kGroup = 6;  ///< columns of B that share a pointer

/// What all tiles of a product share.
struct Operands {
  const ProductShape& shape;
  const float* const* a;
  const float* const* b;
  Count count;
  const float* bias;
  float* c;
};

/// Writes a tile of sums: its place in C is rows from `row`, columns from `column` on. Of its last register only the
/// first `height` values exist where `partial`.
template <Count vectors, Count columns, bool partial>
inline void finish_tile(const Operands& product, Count row, Count column, Count height,
                        Vector (&sums)[columns][vectors]) {
  const ProductShape& shape = product.shape;
  float* const c = product.c + column * shape.ldc + row;
  const auto for_each = [&](auto work) {
#pragma GCC unroll 24
    for (Count n = 0; n < columns; ++n) {
#pragma GCC unroll 4
      for (Count v = 0; v < vectors; ++v)
        work(n, sums[n][v], c + n * shape.ldc + v * kLanes, partial && v == vectors - 1);
    }
  };
  if (shape.accumulate) {
    for_each([&](Count, Vector& sum, const float* old, bool cut) { sum += cut ? load_first(old, height) : load(old); });
  }
  if (product.bias != nullptr) {
    for_each([&](Count n, Vector& sum, const float*, bool) { sum += broadcast(product.bias[column + n]); });
  }
  if (shape.relu) {
    for_each([](Count, Vector& sum, const float*, bool) { sum = sum < 0.0F ? Vector{} : sum; });  // a NaN stays one
  }
  for_each([&](Count, Vector& sum, float* to, bool cut) { cut ? store_first(to, sum, height) : store(to, sum); });
}

/// One tile of C, `vectors` registers high and `columns` wide, from (row, column) on.
template <Count vectors, Count columns, bool transposed, bool partial>
void tile(const Operands& product, Count row, Count column, Count height) {
  const ProductShape& shape = product.shape;
  const Count k_step = transposed ? shape.ldb : 1, n_step = transposed ? 1 : shape.ldb;
  const auto cut = [](Count v) { return partial && v == vectors - 1; };
  constexpr Count groups = (columns + kGroup - 1) / kGroup;
  const float* const c = product.c + column * shape.ldc + row;
#pragma GCC unroll 24
  for (Count n = 0; n < columns; ++n) {
#pragma GCC unroll 4
    for (Count v = 0; v < vectors; ++v) __builtin_prefetch(c + n * shape.ldc + v * kLanes, 1);
  }
  Vector sums[columns][vectors] = {};
  for (Count r = 0; r < product.count; ++r) {
    const float* a = product.a[r] + row;
    const float* b[groups];
#pragma GCC unroll 4
    for (Count g = 0; g < groups; ++g) {
      b[g] = product.b[r] + (column + g * kGroup) * n_step;
      // Else compilers keep 24 offsets from one pointer, more than there are registers.
      if (groups > 1) asm("" : "+r"(b[g]));
    }
    for (Count k = 0; k < shape.k; ++k) {
      Vector left[vectors];
#pragma GCC unroll 4
      for (Count v = 0; v < vectors; ++v) {
        left[v] = cut(v) ? load_first(a + v * kLanes, height) : load(a + v * kLanes);
      }
      // Rows of B lie far apart, and no hardware sees that their next columns come next.
      if (transposed) __builtin_prefetch(b[0] + kPrefetchFloats);
#pragma GCC unroll 24
      for (Count n = 0; n < columns; ++n) {
        const Vector right = broadcast(b[n / kGroup][n % kGroup * n_step]);
#pragma GCC unroll 4
        for (Count v = 0; v < vectors; ++v) sums[n][v] += left[v] * right;
      }
      a += shape.lda;
#pragma GCC unroll 4
      for (Count g = 0; g < groups; ++g) b[g] += k_step;
    }
  }
  finish_tile<vectors, columns, partial>(product, row, column, height, sums);
}

using Tile = void (*)(const Operands& product, Count row, Count column, Count height);

/// The tiles of 1, 2, … columns.
template <Count vectors, bool transposed, bool partial, Count... less>
inline Tile tile_of(Count columns, std::integer_sequence<Count, less...>) {
  static constexpr Tile tiles[] = {tile<vectors, less + 1, transposed, partial>...};
  return tiles[columns - 1];
}

/// The i-th bound of `count` things that are split into `parts` all but equal parts.
constexpr Count bound(Count count, Count parts, Count i) { return count * i / parts; }

/// All columns of `vectors` registers of rows.
template <Count vectors, bool transposed, bool partial>
void row_of_tiles(const Operands& product, Count row, Count height) {
  const Count parts = (product.shape.n + widest(vectors) - 1) / widest(vectors);
  for (Count i = 0; i < parts; ++i) {
    const Count first = bound(product.shape.n, parts, i), end = bound(product.shape.n, parts, i + 1);
    tile_of<vectors, transposed, partial>(end - first, std::make_integer_sequence<Count, widest(vectors)>())(
        product, row, first, height);
  }
}

template <bool transposed, Count most>
void rows_of_tiles(Count vectors, const Operands& product, Count row, Count height) {
  if constexpr (most > 1) {
    if (vectors < most) return rows_of_tiles<transposed, most - 1>(vectors, product, row, height);
  }
  if (height == kLanes) {
    row_of_tiles<most, transposed, false>(product, row, height);
  } else {
    row_of_tiles<most, transposed, true>(product, row, height);
  }
}

template <bool transposed>
void all_tiles(const Operands& product) {
  const Count vectors = (product.shape.m + kLanes - 1) / kLanes, parts = (vectors + kTallest - 1) / kTallest;
  for (Count i = 0; i < parts; ++i) {
    const Count first = bound(vectors, parts, i), end = bound(vectors, parts, i + 1);
    const Count left = product.shape.m - (end - 1) * kLanes;
    rows_of_tiles<transposed, kTallest>(end - first, product, first * kLanes, left < kLanes ? left : kLanes);
  }
}

void product(const ProductShape& shape, const float* const* a, const float* const* b, Count count, const float* bias,
             float* c) {
  const Operands operands{shape, a, b, count, bias, c};
  shape.transposed ? all_tiles<true>(operands) : all_tiles<false>(operands);
}

}  // namespace

void add_products(Loops& loops) { loops.product = product; }

}  // namespace unisono::cpu::UNISONO_ISA
