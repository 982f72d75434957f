#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

// Matrix products, C = [C +] Σ_r A_r B_r, computed one tile of C at a time in registers: each step of k loads a column
// of the tile's part of A, broadcasts the values of a row of B, and adds their outer product (Goto and van de Geijn,
// ACM TOMS 34(3), 2008). On AVX-512, a step of the highest tile is 4 loads and 6 broadcasts for 24 multiply-adds.
namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

#if defined(__AVX512F__)
constexpr Count kSums = 24, kHighest = 4;  // of 32 registers
#else
constexpr Count kSums = 12, kHighest = 2;  // of 16 registers
#endif

constexpr Count kGroup = 6;            ///< columns of B that share a pointer
constexpr Count kPrefetchFloats = 32;  ///< of a row of B ahead, where rows lie far apart: some 5 tiles of 6 columns

/// What all tiles of a product share.
struct Operands {
  const ProductShape& shape;
  const float* const* a;
  const float* const* b;
  Count count;
  const float* bias;
  float* c;
  Ahead& ahead;
};

/// A place in C. Of its last register only the first `height` values exist where a tile is partial.
struct Place {
  Count row, column, height;
};

/// The sums of one tile begin at C, or at zero.
template <Count vectors, Count columns, bool partial>
inline void begin_tile(const Operands& product, const Place& place, Vector (&sums)[columns][vectors]) {
  const float* const c = product.c + place.column * product.shape.ldc + place.row;
#pragma GCC unroll 24
  for (Count n = 0; n < columns; ++n) {
#pragma GCC unroll 4
    for (Count v = 0; v < vectors; ++v) {
      const float* const old = c + n * product.shape.ldc + v * kLanes;
      sums[n][v] = partial && v == vectors - 1 ? load_first(old, place.height) : load(old);
    }
  }
}

/// C = f(sums + bias), for one tile.
template <Count vectors, Count columns, bool partial>
inline void finish_tile(const Operands& product, const Place& place, Vector (&sums)[columns][vectors]) {
  const ProductShape& shape = product.shape;
  float* const c = product.c + place.column * shape.ldc + place.row;
  const auto for_each = [&](auto work) {
#pragma GCC unroll 24
    for (Count n = 0; n < columns; ++n) {
#pragma GCC unroll 4
      for (Count v = 0; v < vectors; ++v) {
        work(n, sums[n][v], c + n * shape.ldc + v * kLanes, partial && v == vectors - 1);
      }
    }
  };
  if (product.bias != nullptr && shape.bias_of_rows) {
    Vector bias[vectors];
#pragma GCC unroll 4
    for (Count v = 0; v < vectors; ++v) {
      const float* const from = product.bias + place.row + v * kLanes;
      bias[v] = partial && v == vectors - 1 ? load_first(from, place.height) : load(from);
    }
#pragma GCC unroll 24
    for (Count n = 0; n < columns; ++n) {
#pragma GCC unroll 4
      for (Count v = 0; v < vectors; ++v) sums[n][v] += bias[v];
    }
  } else if (product.bias != nullptr) {
    for_each([&](Count n, Vector& sum, const float*, bool) { sum += broadcast(product.bias[place.column + n]); });
  }
  if (shape.relu) {
    for_each([](Count, Vector& sum, const float*, bool) { sum = sum < 0.0F ? Vector{} : sum; });  // a NaN stays NaN
  }
  if (!partial && shape.streams) {
    return for_each([](Count, Vector& sum, float* to, bool) { stream(to, sum); });
  }
  for_each([&](Count, Vector& sum, float* to, bool cut) { cut ? store_first(to, sum, place.height) : store(to, sum); });
}

/// Prefetches a tile of C, so that it is in the cache when its sums are finished.
template <Count vectors, Count columns>
inline void fetch_tile(const Operands& product, const Place& place) {
  const float* const c = product.c + place.column * product.shape.ldc + place.row;
#pragma GCC unroll 24
  for (Count n = 0; n < columns; ++n) {
#pragma GCC unroll 4
    for (Count v = 0; v < vectors; ++v) __builtin_prefetch(c + n * product.shape.ldc + v * kLanes, 1);
  }
}

/// Makes the prefetches of so many steps of the caller's `ahead`.
inline void fetch_ahead(Ahead& ahead, Count steps) {
  for (const float* end = ahead.a + steps * ahead.a_step; ahead.a < end; ahead.a += 16) __builtin_prefetch(ahead.a);
  for (const float* end = ahead.b + steps * ahead.b_step; ahead.b < end; ahead.b += 16) __builtin_prefetch(ahead.b);
}

/// One tile of C, `vectors` registers high and `columns` wide.
template <Count vectors, Count columns, bool partial>
void tile(const Operands& product, const Place& place) {
  const ProductShape& shape = product.shape;
  const Count k_step = shape.transposed ? shape.ldb : 1, n_step = shape.transposed ? 1 : shape.ldb;
  const Count row_ahead = shape.transposed ? kPrefetchFloats : 0;
  const auto cut = [](Count v) { return partial && v == vectors - 1; };
  constexpr Count groups = (columns + kGroup - 1) / kGroup;
  // Else the bottleneck of a step of k is loads, and a prefetch is one: with AVX2 it makes a product a quarter slower.
  constexpr bool spare_loads = vectors > 1 && kLanes == 16;
  Vector sums[columns][vectors] = {};
  if (shape.accumulate) {
    begin_tile<vectors, columns, partial>(product, place, sums);
  } else if (!shape.streams) {
    fetch_tile<vectors, columns>(product, place);
  }
  Ahead ahead = product.ahead;
  for (Count r = 0; r < product.count; ++r) {
    if (!spare_loads) fetch_ahead(ahead, shape.k);
    const float* a = product.a[r] + place.row;
    const float* b[groups];
#pragma GCC unroll 4
    for (Count g = 0; g < groups; ++g) {
      b[g] = product.b[r] + (place.column + g * kGroup) * n_step;
      // Else compilers keep 24 offsets from one pointer, more than there are registers.
      if (groups > 1) asm("" : "+r"(b[g]));
    }
    for (Count k = 0; k < shape.k; ++k) {
      Vector left[vectors];
#pragma GCC unroll 4
      for (Count v = 0; v < vectors; ++v) {
        left[v] = cut(v) ? load_first(a + v * kLanes, place.height) : load(a + v * kLanes);
      }
      if (spare_loads) {
        __builtin_prefetch(b[0] + row_ahead);
        __builtin_prefetch(ahead.a, 0, 2);
        __builtin_prefetch(ahead.b, 0, 2);
        ahead.a += ahead.a_step;
        ahead.b += ahead.b_step;
      }
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
  product.ahead = ahead;
  finish_tile<vectors, columns, partial>(product, place, sums);
}

using Tile = void (*)(const Operands& product, const Place& place);

/// The widths of tiles, in columns; each is compiled separately. Tiles of one register need many columns to hide the
/// latency of multiply-adds, so that they have all widths.
constexpr bool exists(Count vectors, Count columns) { return vectors == 1 || columns <= 10 || columns % 4 == 0; }

template <Count vectors, bool partial, Count columns>
constexpr Tile tile_if_exists() {
  if constexpr (exists(vectors, columns)) {
    return tile<vectors, columns, partial>;
  } else {
    return nullptr;
  }
}

template <Count vectors, bool partial, Count... less>
inline Tile tile_of(Count columns, std::integer_sequence<Count, less...>) {
  static constexpr Tile tiles[] = {tile_if_exists<vectors, partial, less + 1>()...};
  return tiles[columns - 1];
}

/// How wide the next tile should be, so that the remaining tiles are about equal.
constexpr Count next_width(Count vectors, Count left, Count widest) {
  const Count tiles = (left + widest - 1) / widest, width = (left + tiles - 1) / tiles;
  if (exists(vectors, width)) return width;
  const Count above = (width + 3) / 4 * 4;
  return above <= left ? above : width / 4 * 4;
}

/// All columns of `vectors` registers of rows.
template <Count vectors, bool partial>
void row_of_tiles(const Operands& product, Count row, Count height) {
  constexpr Count widest = kSums / vectors;
  for (Count column = 0; column < product.shape.n;) {
    const Count columns = next_width(vectors, product.shape.n - column, widest);
    tile_of<vectors, partial>(columns, std::make_integer_sequence<Count, widest>())(product, {row, column, height});
    column += columns;
  }
}

template <Count most>
void row_of_tiles(Count vectors, const Operands& product, Count row, Count height) {
  if constexpr (most > 1) {
    if (vectors < most) return row_of_tiles<most - 1>(vectors, product, row, height);
  }
  if (height == kLanes) {
    row_of_tiles<most, false>(product, row, height);
  } else {
    row_of_tiles<most, true>(product, row, height);
  }
}

void product(const ProductShape& shape, const float* const* a, const float* const* b, Count count, const float* bias,
             float* c, Ahead* ahead) {
  Ahead none{c, 0, c, 0};
  const Operands operands{shape, a, b, count, bias, c, ahead == nullptr ? none : *ahead};
  const Count registers = (shape.m + kLanes - 1) / kLanes, rows = (registers + kHighest - 1) / kHighest;
  for (Count i = 0; i < rows; ++i) {
    const Count first = registers * i / rows, end = registers * (i + 1) / rows;
    const Count left = shape.m - (end - 1) * kLanes;
    row_of_tiles<kHighest>(end - first, operands, first * kLanes, left < kLanes ? left : kLanes);
  }
}

}  // namespace

void add_products(Loops& loops) {
  loops.product = product;
  loops.multiply_adds_per_step = static_cast<double>(kSums * kLanes);
}

// The peak speeds of the cores, with which all other speeds are compared (roofline).

namespace {

/// Enough independent chains to hide the latency of two units (2 × 4 cycles), few enough for 16 registers.
constexpr int kChains = 12;

double multiply_add(Count iterations, float* sink) {
  const Vector factor = broadcast(0.999F), term = broadcast(0.001F);
  Vector sums[kChains];
  for (int chain = 0; chain < kChains; ++chain) sums[chain] = broadcast(*sink + static_cast<float>(chain));
  for (Count i = 0; i < iterations; ++i) {
#pragma GCC unroll 12
    for (int chain = 0; chain < kChains; ++chain) sums[chain] = sums[chain] * factor + term;
  }
  for (const Vector& sum : sums) {
    for (Count lane = 0; lane < kLanes; ++lane) *sink += sum[lane];
  }
  return 2.0 * static_cast<double>(kChains * kLanes) * static_cast<double>(iterations);
}

void triad(Count count, float* a, const float* b, const float* c) {
  for (Count i = 0; i < count; ++i) a[i] = b[i] + 0.5F * c[i];
}

/// Four streams at a time, which the cores' prefetchers follow.
void load_all(Count count, const float* from, float* sum) {
  const Count stream = count / 4;
  Vector sums[4] = {};
  for (Count i = 0; i < stream; i += kLanes) {
#pragma GCC unroll 4
    for (Count chain = 0; chain < 4; ++chain) sums[chain] += load(from + chain * stream + i);
  }
  const Vector all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  for (Count lane = 0; lane < kLanes; ++lane) *sum += all[lane];
}

void store_all(Count count, float value, bool past_caches, float* to) {
  const Vector values = broadcast(value);
  for (Count i = 0; i < count; i += kLanes) {
    if (past_caches) {
      stream(to + i, values);
    } else {
      store(to + i, values);
    }
  }
}

}  // namespace

void add_peak(Loops& loops) {
  loops.multiply_add = multiply_add;
  loops.triad = triad;
  loops.load_all = load_all;
  loops.store_all = store_all;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
