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

/// Applies f to the first `columns` columns of a patch, then to the first `rows` rows.
template <typename F, Count columns, Count rows, typename Transform>
UNISONO_INLINE inline void both_ways(Patch<F>& d, const Transform& f) {
#pragma GCC unroll 6
  for (Count j = 0; j < columns; ++j) {
    Vector column[F::kSize];
#pragma GCC unroll 6
    for (Count i = 0; i < F::kSize; ++i) column[i] = d[i][j];
    f(column);
#pragma GCC unroll 6
    for (Count i = 0; i < F::kSize; ++i) d[i][j] = column[i];
  }
#pragma GCC unroll 6
  for (Count i = 0; i < rows; ++i) f(d[i]);
}

template <typename F>
UNISONO_INLINE inline void store_planes(const Patch<F>& d, float* planes, Count plane) {
#pragma GCC unroll 36
  for (Count f = 0; f < F::kSize * F::kSize; ++f) store(planes + f * plane, d[f / F::kSize][f % F::kSize]);
}

template <typename F>
UNISONO_INLINE inline void load_planes(const float* planes, Count plane, Patch<F>& d) {
#pragma GCC unroll 36
  for (Count f = 0; f < F::kSize * F::kSize; ++f) d[f / F::kSize][f % F::kSize] = load(planes + f * plane);
}

constexpr Count kTilesAhead = 4;  ///< whose pixels are prefetched

/// Calls work(place in the planes, get) for each tile and vector of channels, where get(i, j) is its pixel.
template <typename F, Count size, typename Work>
UNISONO_INLINE inline void for_each_tile(const float* const* rows, const TileRow& tiles, const Work& work) {
  const Count channels = tiles.channels;
  bool whole = true;
  for (Count i = 0; i < size; ++i) whole = whole && rows[i] != nullptr;
  for (Count t = 0; t < tiles.tiles; ++t) {
    const Count x = tiles.x + F::kTile * t;
    if (whole && x >= 0 && x + size <= tiles.width) {
      const float* from[size];
      for (Count i = 0; i < size; ++i) from[i] = rows[i] + x * channels;
      for (Count c = 0; c < channels; c += kLanes) {
        work(t * channels + c, [&](Count i, Count j) UNISONO_INLINE { return load(from[i] + j * channels + c); });
#pragma GCC unroll 4
        for (Count i = size - F::kTile; i < size; ++i) {
          const float* const ahead = from[i] + F::kTile * kTilesAhead * channels + c;
#pragma GCC unroll 4
          for (Count j = 0; j < F::kTile; ++j) __builtin_prefetch(ahead + j * channels);
        }
      }
    } else {
      for (Count c = 0; c < channels; c += kLanes) {
        work(t * channels + c, [&](Count i, Count j) UNISONO_INLINE {
          const bool inside = rows[i] != nullptr && x + j >= 0 && x + j < tiles.width;
          return inside ? load(rows[i] + (x + j) * channels + c) : Vector{};
        });
      }
    }
  }
}

template <typename F>
void input(const float* const* rows, const TileRow& tiles, float* planes, Count plane) {
  constexpr Count size = F::kSize;
  for_each_tile<F, size>(rows, tiles, [&](Count to, const auto& get) UNISONO_INLINE {
    Patch<F> d;
#pragma GCC unroll 36
    for (Count i = 0; i < size * size; ++i) d[i / size][i % size] = get(i / size, i % size);
    both_ways<F, size, size>(d, F::input);
    store_planes<F>(d, planes + to, plane);
  });
}

template <typename F>
void output_gradient(const float* const* rows, const TileRow& tiles, float* planes, Count plane) {
  constexpr Count size = F::kTile;
  for_each_tile<F, size>(rows, tiles, [&](Count to, const auto& get) UNISONO_INLINE {
    Patch<F> d = {};
#pragma GCC unroll 16
    for (Count i = 0; i < size * size; ++i) d[i / size][i % size] = get(i / size, i % size);
    both_ways<F, size, F::kSize>(d, F::output_gradient);
    store_planes<F>(d, planes + to, plane);
  });
}

template <typename F, bool finish>
void output_of(const float* planes, Count plane, const TileRow& tiles, const float* bias, bool relu,
               float* const* rows) {
  const Count channels = tiles.channels;
  for (Count t = 0; t < tiles.tiles; ++t) {
    const Count x = tiles.x + F::kTile * t;
    for (Count c = 0; c < channels; c += kLanes) {
      Patch<F> d;
      load_planes<F>(planes + t * channels + c, plane, d);
      both_ways<F, F::kSize, F::kTile>(d, F::output);
#pragma GCC unroll 4
      for (Count i = 0; i < F::kTile; ++i) {
        if (rows[i] == nullptr) break;
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
void output(const float* planes, Count plane, const TileRow& tiles, const float* bias, bool relu, float* const* rows) {
  (bias != nullptr || relu ? output_of<F, true> : output_of<F, false>)(planes, plane, tiles, bias, relu, rows);
}

template <typename F>
void weights(const float* w, Count tap, Count count, float* planes, Count plane) {
  for (Count i = 0; i < count; i += kLanes) {
    Patch<F> d = {};
#pragma GCC unroll 9
    for (Count t = 0; t < 9; ++t) d[t / 3][t % 3] = load(w + t * tap + i);
    both_ways<F, 3, F::kSize>(d, F::weights);
    store_planes<F>(d, planes + i, plane);
  }
}

template <typename F>
void weight_gradient(const float* planes, Count plane, Count count, bool add, float* dw, Count tap) {
  for (Count i = 0; i < count; i += kLanes) {
    Patch<F> d;
    load_planes<F>(planes + i, plane, d);
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
  return {F::kTile, input<F>, output<F>, output_gradient<F>, weights<F>, weight_gradient<F>};
}

}  // namespace

void add_winograd(Loops& loops) {
  loops.winograd2 = loops_of<F2>();
  loops.winograd4 = loops_of<F4>();
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
