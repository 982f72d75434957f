#include "cpu/loops_isa/bytes.hpp"
#include "cpu/loops_isa/table.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {
namespace {

// kCount > 0: a window of so many taps, known to the compiler; 0: of `count` taps.

template <int kCount>
void maximum_of(const float* x, const Count* taps, Count count, Count n, float* y) {
  const Count last = kCount > 0 ? kCount : count;
  for_each_vector(n, [&](Count i, auto lanes) {
    Vector best = lanes.get(x + taps[0] + i);
    for (Count t = 1; t < last; ++t) {
      const Vector v = lanes.get(x + taps[t] + i);
      best = ((v > best) | (v != v)) ? v : best;
    }
    lanes.put(y + i, best);
  });
}

void maximum(const float* x, const Count* taps, Count count, Count n, float* y) {
  (count == 4 ? maximum_of<4> : maximum_of<0>)(x, taps, count, n, y);
}

template <int kCount, bool kAdd>
void maximum_backward_of(const float* x, const float* y, const float* dy, const Count* taps, Count count, Count n,
                         float* dx) {
  const Count last = kCount > 0 ? kCount : count;
  for_each_vector(n, [&](Count i, auto lanes) {
    const Vector best = lanes.get(y + i);
    Vector left = lanes.get(dy + i);  // zero once it has been given away
    for (Count t = 0; t < last; ++t) {
      const Count at = taps[t] + i;
      const Integers here = lanes.get(x + at) == best;
      const Vector given = keep(here, left);
      left = keep(~here, left);
      lanes.put(dx + at, kAdd ? lanes.get(dx + at) + given : given);
    }
  });
}

void maximum_backward(const float* x, const float* y, const float* dy, const Count* taps, Count count, Count n,
                      bool add, float* dx) {
  if (add) {
    maximum_backward_of<0, true>(x, y, dy, taps, count, n, dx);
  } else {
    (count == 4 ? maximum_backward_of<4, false> : maximum_backward_of<0, false>)(x, y, dy, taps, count, n, dx);
  }
}

constexpr std::int32_t kNowhere = 4;  ///< of a place

void maximum_of_four(const float* x, const Count* taps, bool relu, Count n, float* y, std::uint8_t* places) {
  for_each_vector(n, [&](Count i, auto lanes) {
    Vector best = lanes.get(x + taps[0] + i);
    Integers place{};
#pragma GCC unroll 3
    for (std::int32_t t = 1; t < 4; ++t) {
      const Vector v = lanes.get(x + taps[t] + i);
      const Integers better = (v > best) | (v != v);
      best = better ? v : best;
      place = better ? Integers{} + t : place;
    }
    if (relu) {
      place = best > 0.0F ? place : Integers{} + kNowhere;
      best = best < 0.0F ? Vector{} : best;  // a NaN stays NaN
    }
    lanes.put(y + i, best);
    store_bytes(places + i, place, lanes.count);
  });
}

void spread_to_two(const std::uint8_t* places, int first, const float* dy, const Count* taps, Count n, float* dx) {
  for_each_vector(n, [&](Count i, auto lanes) {
    const Integers place = load_bytes(places + i, lanes.count);
    const Vector gradient = lanes.get(dy + i);
#pragma GCC unroll 2
    for (std::int32_t t = 0; t < 2; ++t) lanes.put(dx + taps[t] + i, keep(place == first + t, gradient));
  });
}

void mean(const float* x, const Count* taps, Count count, Count n, float* y) {
  const float share = 1.0F / static_cast<float>(count);
  for_each_vector(n, [&](Count i, auto lanes) {
    Vector sum = lanes.get(x + taps[0] + i);
    for (Count t = 1; t < count; ++t) sum += lanes.get(x + taps[t] + i);
    lanes.put(y + i, sum * share);
  });
}

/// Sums of 32 pixels are added up first, so that rounding errors grow with pixels / 32 + 32 at most. In strips that
/// leave room in the level-1 cache, for the pixels to be read in long runs.
void mean_over_pixels(const float* x, Count pixels, Count stride, Count n, float* y) {
  constexpr Count kStrip = 1024, kRun = 32;
  const float share = 1.0F / static_cast<float>(pixels);
  float run[kStrip], sum[kStrip];
  for (Count first = 0; first < n; first += kStrip) {
    const Count length = n - first < kStrip ? n - first : kStrip;
    for (Count i = 0; i < length; ++i) sum[i] = run[i] = 0.0F;
    for (Count p = 0; p < pixels; ++p) {
      const float* row = x + p * stride + first;
      for_each_vector(length,
                      [&](Count i, auto lanes) { lanes.put(run + i, lanes.get(run + i) + lanes.get(row + i)); });
      if (p % kRun != kRun - 1 && p != pixels - 1) continue;
      for (Count i = 0; i < length; ++i) sum[i] += run[i], run[i] = 0.0F;
    }
    for (Count i = 0; i < length; ++i) y[first + i] = sum[i] * share;
  }
}

}  // namespace

void add_pool(Loops& loops) {
  loops.pool = {maximum, maximum_backward, maximum_of_four, spread_to_two, mean, mean_over_pixels};
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
