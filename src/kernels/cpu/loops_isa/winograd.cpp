// The transforms of Winograd's minimal filtering F(2 × 2, 3 × 3): Lavin & Gray, CVPR 2016, whose names these are. Each
// vector holds a pixel of some channels.
#include "cpu/loops_isa/table.hpp"
#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

using Patch = Vector[4][4];

/// Applies f to the first `columns` columns of a patch, then to all of its rows.
template <Count columns, typename Transform>
__attribute__((always_inline)) inline void both_ways(Patch& d, const Transform& f) {
#pragma GCC unroll 4
  for (Count j = 0; j < columns; ++j) f(d[0][j], d[1][j], d[2][j], d[3][j]);
#pragma GCC unroll 4
  for (Count i = 0; i < 4; ++i) f(d[i][0], d[i][1], d[i][2], d[i][3]);
}

__attribute__((always_inline)) inline void store_planes(const Patch& d, float* planes, Count plane) {
#pragma GCC unroll 16
  for (Count f = 0; f < 16; ++f) store(planes + f * plane, d[f / 4][f % 4]);
}

__attribute__((always_inline)) inline void load_planes(const float* planes, Count plane, Patch& d) {
#pragma GCC unroll 16
  for (Count f = 0; f < 16; ++f) d[f / 4][f % 4] = load(planes + f * plane);
}

constexpr Count kTilesAhead = 4;  ///< whose pixels are prefetched

/// Calls work(place in the planes, get) for each tile and vector of channels, where get(i, j) is its pixel.
template <Count size, typename Work>
__attribute__((always_inline)) inline void for_each_tile(const float* const* rows, const TileRow& tiles,
                                                         const Work& work) {
  const Count channels = tiles.channels;
  bool whole = true;
  for (Count i = 0; i < size; ++i) whole = whole && rows[i] != nullptr;
  for (Count t = 0; t < tiles.tiles; ++t) {
    const Count x = tiles.x + 2 * t;
    if (whole && x >= 0 && x + size <= tiles.width) {
      const float* from[size];
      for (Count i = 0; i < size; ++i) from[i] = rows[i] + x * channels;
      for (Count c = 0; c < channels; c += kLanes) {
        work(
            t * channels + c, [&](Count i, Count j)
                                  __attribute__((always_inline)) { return load(from[i] + j * channels + c); });
#pragma GCC unroll 2
        for (Count i = size - 2; i < size; ++i) {
          const float* const ahead = from[i] + 2 * kTilesAhead * channels + c;
          __builtin_prefetch(ahead);
          __builtin_prefetch(ahead + channels);
        }
      }
    } else {
      for (Count c = 0; c < channels; c += kLanes) {
        work(
            t * channels + c, [&](Count i, Count j) __attribute__((always_inline)) {
              const bool inside = rows[i] != nullptr && x + j >= 0 && x + j < tiles.width;
              return inside ? load(rows[i] + (x + j) * channels + c) : Vector{};
            });
      }
    }
  }
}

/// Bᵀ = (1 0 −1 0; 0 1 1 0; 0 −1 1 0; 0 1 0 −1)
void input(const float* const* rows, const TileRow& tiles, float* planes, Count plane) {
  for_each_tile<4>(
      rows, tiles, [&](Count to, const auto& get) __attribute__((always_inline)) {
        Patch d;
#pragma GCC unroll 16
        for (Count i = 0; i < 16; ++i) d[i / 4][i % 4] = get(i / 4, i % 4);
        both_ways<4>(
            d, [](Vector & a, Vector & b, Vector & c, Vector & e) __attribute__((always_inline)) {
              const Vector first = a - c, sum = b + c, difference = c - b, last = b - e;
              a = first, b = sum, c = difference, e = last;
            });
        store_planes(d, planes + to, plane);
      });
}

/// A, the transpose of Aᵀ below
void output_gradient(const float* const* rows, const TileRow& tiles, float* planes, Count plane) {
  for_each_tile<2>(
      rows, tiles, [&](Count to, const auto& get) __attribute__((always_inline)) {
        Patch d = {};
#pragma GCC unroll 4
        for (Count i = 0; i < 4; ++i) d[i / 2][i % 2] = get(i / 2, i % 2);
        both_ways<2>(
            d, [](Vector & a, Vector & b, Vector & c, Vector & e) __attribute__((always_inline)) {
              const Vector sum = a + b, difference = a - b;
              e = Vector{} - b;
              b = sum, c = difference;
            });
        store_planes(d, planes + to, plane);
      });
}

/// Aᵀ = (1 1 1 0; 0 1 −1 −1)
template <bool finish>
void output_of(const float* planes, Count plane, const TileRow& tiles, const float* bias, bool relu,
               float* const* rows) {
  const Count channels = tiles.channels;
  for (Count t = 0; t < tiles.tiles; ++t) {
    const Count x = tiles.x + 2 * t;
    float* const upper = rows[0] + x * channels;
    float* const lower = rows[1] == nullptr ? nullptr : rows[1] + x * channels;
    for (Count c = 0; c < channels; c += kLanes) {
      Patch d;
      load_planes(planes + t * channels + c, plane, d);
      both_ways<4>(
          d, [](Vector & a, Vector & b, Vector & c_, Vector & e) __attribute__((always_inline)) {
            const Vector first = a + b + c_, second = b - c_ - e;
            a = first, b = second;
          });
      if (finish) {
#pragma GCC unroll 4
        for (Count i = 0; i < 4; ++i) {
          Vector& v = d[i / 2][i % 2];
          if (bias != nullptr) v += load(bias + c);
          if (relu) v = v < 0.0F ? Vector{} : v;  // a NaN stays NaN
        }
      }
      const bool right = x + 1 < tiles.width;
      store(upper + c, d[0][0]);
      if (right) store(upper + channels + c, d[0][1]);
      if (lower == nullptr) continue;
      store(lower + c, d[1][0]);
      if (right) store(lower + channels + c, d[1][1]);
    }
  }
}

void output(const float* planes, Count plane, const TileRow& tiles, const float* bias, bool relu, float* const* rows) {
  (bias != nullptr || relu ? output_of<true> : output_of<false>)(planes, plane, tiles, bias, relu, rows);
}

/// G = (1 0 0; ½ ½ ½; ½ −½ ½; 0 0 1)
void weights(const float* w, Count tap, Count count, float* planes, Count plane) {
  for (Count i = 0; i < count; i += kLanes) {
    Patch d = {};
#pragma GCC unroll 9
    for (Count t = 0; t < 9; ++t) d[t / 3][t % 3] = load(w + t * tap + i);
    both_ways<3>(
        d, [](Vector & a, Vector & b, Vector & c, Vector & e) __attribute__((always_inline)) {
          const Vector outer = (a + c) * 0.5F, inner = b * 0.5F;
          e = c;
          b = outer + inner, c = outer - inner;
        });
    store_planes(d, planes + i, plane);
  }
}

void weight_gradient(const float* planes, Count plane, Count count, bool add, float* dw, Count tap) {
  for (Count i = 0; i < count; i += kLanes) {
    Patch d;
    load_planes(planes + i, plane, d);
    both_ways<4>(
        d, [](Vector & a, Vector & b, Vector & c, Vector & e) __attribute__((always_inline)) {
          const Vector half = (b + c) * 0.5F, difference = (b - c) * 0.5F;
          a += half;
          b = difference;
          c = half + e;
        });
#pragma GCC unroll 9
    for (Count t = 0; t < 9; ++t) {
      float* const to = dw + t * tap + i;
      store(to, add ? load(to) + d[t / 3][t % 3] : d[t / 3][t % 3]);
    }
  }
}

}  // namespace

void add_winograd(Loops& loops) { loops.winograd = {input, output, output_gradient, weights, weight_gradient}; }

}  // namespace unisono::kernels::cpu::UNISONO_ISA
