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

/// Bᵀ = (1 0 −1 0; 0 1 1 0; 0 −1 1 0; 0 1 0 −1)
void input(const float* const* pixels, Count channels, float* planes, Count plane) {
  for (Count c = 0; c < channels; c += kLanes) {
    Patch d;
#pragma GCC unroll 16
    for (Count i = 0; i < 16; ++i) d[i / 4][i % 4] = load(pixels[i] + c);
    both_ways<4>(
        d, [](Vector & a, Vector & b, Vector & c_, Vector & e) __attribute__((always_inline)) {
          const Vector first = a - c_, sum = b + c_, difference = c_ - b, last = b - e;
          a = first, b = sum, c_ = difference, e = last;
        });
    store_planes(d, planes + c, plane);
  }
}

/// Aᵀ = (1 1 1 0; 0 1 −1 −1)
void output(const float* planes, Count plane, Count channels, const float* bias, bool relu, float* const* pixels) {
  for (Count c = 0; c < channels; c += kLanes) {
    Patch d;
    load_planes(planes + c, plane, d);
    both_ways<4>(
        d, [](Vector & a, Vector & b, Vector & c_, Vector & e) __attribute__((always_inline)) {
          const Vector first = a + b + c_, second = b - c_ - e;
          a = first, b = second;
        });
#pragma GCC unroll 4
    for (Count i = 0; i < 4; ++i) {
      Vector v = d[i / 2][i % 2];
      if (bias != nullptr) v += load(bias + c);
      if (relu) v = v < 0.0F ? Vector{} : v;  // a NaN stays NaN
      if (pixels[i] != nullptr) store(pixels[i] + c, v);
    }
  }
}

/// A = the transpose of Aᵀ above
void output_gradient(const float* const* pixels, Count channels, float* planes, Count plane) {
  for (Count c = 0; c < channels; c += kLanes) {
    Patch d = {};
#pragma GCC unroll 4
    for (Count i = 0; i < 4; ++i) d[i / 2][i % 2] = load(pixels[i] + c);
    both_ways<2>(
        d, [](Vector & a, Vector & b, Vector & c_, Vector & e) __attribute__((always_inline)) {
          const Vector sum = a + b, difference = a - b;
          e = Vector{} - b;
          b = sum, c_ = difference;
        });
    store_planes(d, planes + c, plane);
  }
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
