// The transforms of Winograd's minimal filtering F(m × m, 3 × 3): Lavin & Gray, CVPR 2016, whose names these are. Each
// vector holds a pixel of some channels.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

#define UNISONO_INLINE __attribute__((always_inline))

/// F(2, 3), in one dimension: each function replaces the first values of v by their transform.
struct F2 {
  static constexpr Count kTile = 2, kSize = 4;  ///< pixels of the output and of the input, each way
  using Line = Vector[kSize];

  /// Bᵀ = (1 0 −1 0; 0 1 1 0; 0 −1 1 0; 0 1 0 −1)
  UNISONO_INLINE static void input(Line& v) {
    const Vector first = v[0] - v[2], sum = v[1] + v[2], difference = v[2] - v[1], last = v[1] - v[3];
    v[0] = first, v[1] = sum, v[2] = difference, v[3] = last;
  }
  /// Aᵀ = (1 1 1 0; 0 1 −1 −1)
  UNISONO_INLINE static void output(Line& v) {
    const Vector first = v[0] + v[1] + v[2], second = v[1] - v[2] - v[3];
    v[0] = first, v[1] = second;
  }
  /// A
  UNISONO_INLINE static void output_gradient(Line& v) {
    const Vector sum = v[0] + v[1], difference = v[0] - v[1];
    v[3] = Vector{} - v[1];
    v[1] = sum, v[2] = difference;
  }
  /// G = (1 0 0; ½ ½ ½; ½ −½ ½; 0 0 1)
  UNISONO_INLINE static void weights(Line& v) {
    const Vector outer = (v[0] + v[2]) * 0.5F, inner = v[1] * 0.5F;
    v[3] = v[2];
    v[1] = outer + inner, v[2] = outer - inner;
  }
  /// Gᵀ
  UNISONO_INLINE static void weight_gradient(Line& v) {
    const Vector half = (v[1] + v[2]) * 0.5F, difference = (v[1] - v[2]) * 0.5F;
    v[0] += half;
    v[1] = difference;
    v[2] = half + v[3];
  }
};

/// F(4, 3), likewise.
struct F4 {
  static constexpr Count kTile = 4, kSize = 6;
  using Line = Vector[kSize];

  /// Bᵀ = (4 0 −5 0 1 0; 0 −4 −4 1 1 0; 0 4 −4 −1 1 0; 0 −2 −1 2 1 0; 0 2 −1 −2 1 0; 0 4 0 −5 0 1)
  UNISONO_INLINE static void input(Line& v) {
    const Vector first = 4.0F * v[0] - 5.0F * v[2] + v[4], last = 4.0F * v[1] - 5.0F * v[3] + v[5];
    const Vector even = v[4] - 4.0F * v[2], odd = v[3] - 4.0F * v[1];
    const Vector near = v[4] - v[2], far = 2.0F * (v[3] - v[1]);
    v[0] = first, v[1] = even + odd, v[2] = even - odd, v[3] = near + far, v[4] = near - far, v[5] = last;
  }
  /// Aᵀ = (1 1 1 1 1 0; 0 1 −1 2 −2 0; 0 1 1 4 4 0; 0 1 −1 8 −8 1)
  UNISONO_INLINE static void output(Line& v) {
    const Vector sum = v[1] + v[2], difference = v[1] - v[2], sum2 = v[3] + v[4], difference2 = v[3] - v[4];
    v[0] += sum + sum2;
    v[1] = difference + 2.0F * difference2;
    v[2] = sum + 4.0F * sum2;
    v[3] = difference + 8.0F * difference2 + v[5];
  }
  /// A
  UNISONO_INLINE static void output_gradient(Line& v) {
    const Vector even = v[0] + v[2], odd = v[1] + v[3], even2 = v[0] + 4.0F * v[2], odd2 = 2.0F * (v[1] + 4.0F * v[3]);
    v[5] = v[3];
    v[1] = even + odd, v[2] = even - odd, v[3] = even2 + odd2, v[4] = even2 - odd2;
  }
  /// G = (¼ 0 0; −⅙ −⅙ −⅙; −⅙ ⅙ −⅙; 1/24 1/12 ⅙; 1/24 −1/12 ⅙; 0 0 1)
  UNISONO_INLINE static void weights(Line& v) {
    const Vector outer = (v[0] + v[2]) * (-1.0F / 6), inner = v[1] * (1.0F / 6);
    const Vector outer2 = (0.25F * v[0] + v[2]) * (1.0F / 6), inner2 = v[1] * (1.0F / 12);
    v[5] = v[2];
    v[0] *= 0.25F;
    v[1] = outer - inner, v[2] = outer + inner, v[3] = outer2 + inner2, v[4] = outer2 - inner2;
  }
  /// Gᵀ
  UNISONO_INLINE static void weight_gradient(Line& v) {
    const Vector sum = (v[1] + v[2]) * (1.0F / 6), sum2 = (v[3] + v[4]) * (1.0F / 6);
    const Vector middle = (v[2] - v[1] + 0.5F * (v[3] - v[4])) * (1.0F / 6);
    v[0] = 0.25F * (v[0] + sum2) - sum;
    v[1] = middle;
    v[2] = sum2 - sum + v[5];
  }
};

template <typename F>
using Patch = Vector[F::kSize][F::kSize];

/// Applies f to the first `columns` columns of a patch.
template <typename F, Count columns, typename Transform>
UNISONO_INLINE inline void transform_columns(Patch<F>& d, const Transform& f) {
#pragma GCC unroll 6
  for (Count j = 0; j < columns; ++j) {
    Vector column[F::kSize];
#pragma GCC unroll 6
    for (Count i = 0; i < F::kSize; ++i) column[i] = d[i][j];
    f(column);
#pragma GCC unroll 6
    for (Count i = 0; i < F::kSize; ++i) d[i][j] = column[i];
  }
}

/// Applies f to the first `columns` columns of a patch, then to the first `rows` rows.
template <typename F, Count columns, Count rows, typename Transform>
UNISONO_INLINE inline void both_ways(Patch<F>& d, const Transform& f) {
  transform_columns<F, columns>(d, f);
#pragma GCC unroll 6
  for (Count i = 0; i < rows; ++i) f(d[i]);
}

/// Stores a row of a patch in its planes.
template <typename F>
UNISONO_INLINE inline void store_row(const Vector (&row)[F::kSize], float* planes, Count plane) {
#pragma GCC unroll 6
  for (Count j = 0; j < F::kSize; ++j) store(planes + j * plane, row[j]);
}

constexpr Count kTilesAhead = 4;  ///< whose pixels are prefetched

/// Calls work(place in the planes, column of pixels that was transformed by `transform`) for each tile and vector of
/// channels. Neighbouring tiles share `size` − F::kTile columns, which are transformed once.
template <typename F, Count size, typename Transform, typename Work>
UNISONO_INLINE inline void for_each_tile(const float* const* rows, const TileRow& tiles, const Transform& transform,
                                         const Work& work) {
  static constexpr float zeros[kLanes] = {};
  constexpr Count shared = size - F::kTile;
  const Count channels = tiles.channels;
  for (Count c = 0; c < channels; c += kLanes) {
    const float* row[size];
    Count step[size];
    for (Count i = 0; i < size; ++i) {
      row[i] = rows[i] == nullptr ? zeros : rows[i] + c;
      step[i] = rows[i] == nullptr ? 0 : channels;
    }
    Patch<F> d;
    const auto read_column = [&](Count j, Count x) UNISONO_INLINE {
      Vector column[F::kSize] = {};
      if (x >= 0 && x < tiles.width) {
#pragma GCC unroll 6
        for (Count i = 0; i < size; ++i) column[i] = load(row[i] + x * step[i]);
      }
      transform(column);
#pragma GCC unroll 6
      for (Count i = 0; i < F::kSize; ++i) d[i][j] = column[i];
    };
#pragma GCC unroll 2
    for (Count j = 0; j < shared; ++j) read_column(F::kTile + j, tiles.x + j);
    for (Count t = 0; t < tiles.tiles; ++t) {
      const Count x = tiles.x + F::kTile * t;
#pragma GCC unroll 2
      for (Count j = 0; j < shared; ++j) {
#pragma GCC unroll 6
        for (Count i = 0; i < F::kSize; ++i) d[i][j] = d[i][F::kTile + j];
      }
#pragma GCC unroll 4
      for (Count j = shared; j < size; ++j) read_column(j, x + j);
      work(t * channels + c, d);
#pragma GCC unroll 4
      for (Count i = shared; i < size; ++i) {
#pragma GCC unroll 4
        for (Count j = 0; j < F::kTile; ++j) {
          __builtin_prefetch(row[i] + (x + shared + F::kTile * kTilesAhead + j) * step[i]);
        }
      }
    }
  }
}

template <typename F>
void input(const float* const* rows, const TileRow& tiles, float* planes, Count plane) {
  for_each_tile<F, F::kSize>(rows, tiles, F::input, [&](Count to, const Patch<F>& columns) UNISONO_INLINE {
#pragma GCC unroll 6
    for (Count i = 0; i < F::kSize; ++i) {
      Vector row[F::kSize];
#pragma GCC unroll 6
      for (Count j = 0; j < F::kSize; ++j) row[j] = columns[i][j];
      F::input(row);
      store_row<F>(row, planes + to + i * F::kSize * plane, plane);
    }
  });
}

template <typename F>
void output_gradient(const float* const* rows, const TileRow& tiles, float* planes, Count plane) {
  for_each_tile<F, F::kTile>(rows, tiles, F::output_gradient, [&](Count to, const Patch<F>& columns) UNISONO_INLINE {
#pragma GCC unroll 6
    for (Count i = 0; i < F::kSize; ++i) {
      Vector row[F::kSize] = {};
#pragma GCC unroll 4
      for (Count j = 0; j < F::kTile; ++j) row[j] = columns[i][j];
      F::output_gradient(row);
      store_row<F>(row, planes + to + i * F::kSize * plane, plane);
    }
  });
}

constexpr Count kSums = 24;  ///< registers of AVX-512 that sum up products

/// The products of one column of values for some tiles and a vector of output channels, and their transform.
template <typename F, Count tiles>
void column_of_tiles(const WinogradProducts& p, const float* u, const float* v, float* m) {
  constexpr Count size = F::kSize;
  Vector sums[tiles][size] = {};
  const float *a[size], *b[size];
#pragma GCC unroll 6
  for (Count i = 0; i < size; ++i) {
    a[i] = u + i * size * p.u_plane;
    b[i] = v + i * size * p.v_plane;
    asm("" : "+r"(a[i]), "+r"(b[i]));  // else compilers keep more offsets than there are registers
  }
  for (Count k = 0; k < p.in; ++k) {
#pragma GCC unroll 6
    for (Count i = 0; i < size; ++i) {
      const Vector left = load(a[i]);
#pragma GCC unroll 6
      for (Count t = 0; t < tiles; ++t) sums[t][i] += left * broadcast(b[i][t * p.in]);
      a[i] += p.out;
      ++b[i];
    }
  }
#pragma GCC unroll 6
  for (Count t = 0; t < tiles; ++t) {
    F::output(sums[t]);
#pragma GCC unroll 4
    for (Count i = 0; i < F::kTile; ++i) store(m + i * size * p.m_plane + t * p.out, sums[t][i]);
  }
}

/// The tiles from `tile` on, at most `most`. \return how many
template <typename F, Count most>
UNISONO_INLINE inline Count some_tiles(const WinogradProducts& p, Count tile, const float* u, const float* v,
                                       float* m) {
  if constexpr (most > 1) {
    if (p.tiles - tile < most) return some_tiles<F, most - 1>(p, tile, u, v, m);
  }
  column_of_tiles<F, most>(p, u, v + tile * p.in, m + tile * p.out);
  return most;
}

template <typename F>
void column_products(const WinogradProducts& p) {
  for (Count j = 0; j < F::kSize; ++j) {
    for (Count channel = 0; channel < p.out; channel += kLanes) {
      for (Count tile = 0; tile < p.tiles;) {
        tile += some_tiles<F, kSums / F::kSize>(p, tile, p.u + j * p.u_plane + channel, p.v + j * p.v_plane,
                                                p.m + j * p.m_plane + channel);
      }
    }
  }
}

template <typename F, bool columns, bool finish>
void output_of(const float* planes, Count plane, const TileRow& tiles, const float* bias, bool relu,
               float* const* rows) {
  constexpr Count height = columns ? F::kTile : F::kSize;
  const Count channels = tiles.channels;
  for (Count t = 0; t < tiles.tiles; ++t) {
    const Count x = tiles.x + F::kTile * t;
    for (Count c = 0; c < channels; c += kLanes) {
      Patch<F> d;
#pragma GCC unroll 6
      for (Count i = 0; i < height; ++i) {
#pragma GCC unroll 6
        for (Count j = 0; j < F::kSize; ++j) d[i][j] = load(planes + (i * F::kSize + j) * plane + t * channels + c);
      }
      if (!columns) transform_columns<F, F::kSize>(d, F::output);
#pragma GCC unroll 4
      for (Count i = 0; i < F::kTile; ++i) {
        if (rows[i] == nullptr) break;
        F::output(d[i]);
#pragma GCC unroll 4
        for (Count j = 0; j < F::kTile; ++j) {
          Vector v = d[i][j];
          if (finish) {
            if (bias != nullptr) v += load(bias + c);
            if (relu) v = v < 0.0F ? Vector{} : v;  // a NaN stays NaN
          }
          if (x + j < tiles.width) store(rows[i] + (x + j) * channels + c, v);
        }
      }
    }
  }
}

template <typename F>
void output(const float* planes, Count plane, bool columns, const TileRow& tiles, const float* bias, bool relu,
            float* const* rows) {
  const bool finish = bias != nullptr || relu;
  if (columns) {
    (finish ? output_of<F, true, true> : output_of<F, true, false>)(planes, plane, tiles, bias, relu, rows);
  } else {
    (finish ? output_of<F, false, true> : output_of<F, false, false>)(planes, plane, tiles, bias, relu, rows);
  }
}

template <typename F>
void weights(const float* w, Count tap, Count count, float* planes, Count plane) {
  for (Count i = 0; i < count; i += kLanes) {
    Patch<F> d = {};
#pragma GCC unroll 9
    for (Count t = 0; t < 9; ++t) d[t / 3][t % 3] = load(w + t * tap + i);
    both_ways<F, 3, F::kSize>(d, F::weights);
#pragma GCC unroll 6
    for (Count row = 0; row < F::kSize; ++row) store_row<F>(d[row], planes + i + row * F::kSize * plane, plane);
  }
}

template <typename F>
void weight_gradient(const float* planes, Count plane, Count count, bool add, float* dw, Count tap) {
  for (Count i = 0; i < count; i += kLanes) {
    Patch<F> d;
#pragma GCC unroll 36
    for (Count f = 0; f < F::kSize * F::kSize; ++f) d[f / F::kSize][f % F::kSize] = load(planes + i + f * plane);
    both_ways<F, F::kSize, 3>(d, F::weight_gradient);
#pragma GCC unroll 9
    for (Count t = 0; t < 9; ++t) {
      float* const to = dw + t * tap + i;
      store(to, add ? load(to) + d[t / 3][t % 3] : d[t / 3][t % 3]);
    }
  }
}

template <typename F>
constexpr WinogradLoops loops_of() {
  return {F::kTile,   input<F>,          kLanes == 16 ? column_products<F> : nullptr, output<F>, output_gradient<F>,
          weights<F>, weight_gradient<F>};
}

}  // namespace

void add_winograd(Loops& loops) {
  loops.winograd2 = loops_of<F2>();
  loops.winograd4 = loops_of<F4>();
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
