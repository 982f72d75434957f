#pragma once

#include "cpu/loops_isa/vector.hpp"

namespace unisono::kernels::cpu::UNISONO_ISA {

// Horizontal sums of many registers at once: in log₂ n steps, each of which halves the number of registers. Summing
// each register by itself would take log₂ kLanes steps for every one.

template <int distance>
__attribute__((always_inline)) static inline void fold(Vector* values) {
#pragma GCC unroll 8
  for (int i = 0; i < distance; ++i) {
    exchange<distance>(values[i], values[i + distance]);
    values[i] += values[i + distance];
  }
  if constexpr (distance > 1) fold<distance / 2>(values);
}

template <int distance, int... lane>
__attribute__((always_inline)) static inline Vector swapped(Vector value, std::integer_sequence<int, lane...>) {
  return __builtin_shufflevector(value, value, (lane ^ distance)...);
}

/// Each lane becomes the sum of all lanes whose number differs from its own only in bits from `distance` upwards.
template <int distance>
__attribute__((always_inline)) static inline Vector add_far_lanes(Vector value) {
  if constexpr (distance < kLanes) {
    value += swapped<distance>(value, std::make_integer_sequence<int, kLanes>());
    return add_far_lanes<2 * distance>(value);
  } else {
    return value;
  }
}

/// The sum of all lanes, in each.
__attribute__((always_inline)) static inline Vector add_all_lanes(Vector value) { return add_far_lanes<1>(value); }

/// Lane l of totals[r] = Σ_lanes values[r · kLanes + l], as far as there are values.
template <Count count>
__attribute__((always_inline)) static inline void add_lanes(const Vector* values, Vector* totals) {
  constexpr int some = count < kLanes ? count : kLanes;
  constexpr int width = some > 8 ? 16 : some > 4 ? 8 : some > 2 ? 4 : some;  // a power of two
  Vector sums[width] = {};
#pragma GCC unroll 16
  for (int i = 0; i < some; ++i) sums[i] = values[i];
  if constexpr (width > 1) fold<width / 2>(sums);
  totals[0] = add_far_lanes<width>(sums[0]);
  if constexpr (count > kLanes) add_lanes<count - kLanes>(values + kLanes, totals + 1);
}

// Σ x² to within 4 roundings of a double, however many numbers there are: squares of floats are exact in double, the
// squares of four registers are added up, and the rounding error of adding these to the total is kept (compensated
// summation).
//   Knuth, TAOCP 2, 4.2.2, theorem B (the error of a sum); Ogita, Rump & Oishi, SIAM J. Sci. Comput. 26(6), 2005.

/// A compensated sum: `rest` adds up the rounding errors of `sum`; the value is sum + rest.
template <typename T>
struct SplitSum {
  T sum{}, rest{};

  __attribute__((always_inline)) void add(T value) {
    const T before = sum;
    sum = before + value;
    const T added = sum - before;
    rest += (before - (sum - added)) + (value - added);
  }
  __attribute__((always_inline)) void add(const SplitSum& other) {
    add(other.sum);
    rest += other.rest;
  }
};

/// Σ x² of vectors that are added one after the other. It computes two sums at once: two streams from memory are faster
/// than one, and do not wait for each other.
class SquareSum {
 public:
  __attribute__((always_inline)) void add(const float* x, Count n) {
    constexpr Count kTogether = 4, kStep = kTogether * kHalf;
    const Count part = n / kParts / kStep * kStep;
    SplitSum<Doubles> sums[kParts] = {sums_[0], sums_[1]};
    for (Count i = 0; i < part; i += kStep) {
#pragma GCC unroll 2
      for (Count j = 0; j < kParts; ++j) {
        const float* const at = x + j * part + i;
        Doubles squares{};
#pragma GCC unroll 4
        for (Count k = 0; k < kTogether; ++k) {
          const Doubles v = load_doubles(at + k * kHalf);
          squares += v * v;
        }
        sums[j].add(squares);
      }
    }
    for (Count i = kParts * part; i < n; i += kHalf) {
      float rest[kHalf] = {};
      __builtin_memcpy(rest, x + i, sizeof(float) * static_cast<std::size_t>(n - i < kHalf ? n - i : kHalf));
      const Doubles v = load_doubles(rest);
      sums[0].add(v * v);
    }
    for (Count j = 0; j < kParts; ++j) sums_[j] = sums[j];
  }

  /// sum[0] + sum[1] = Σ x² of all that was added.
  __attribute__((always_inline)) void store(double* sum) const {
    SplitSum<Doubles> both = sums_[0];
    both.add(sums_[1]);
    SplitSum<double> all;
    for (Count lane = 0; lane < kHalf; ++lane) all.add({both.sum[lane], both.rest[lane]});
    sum[0] = all.sum;
    sum[1] = all.rest;
  }

 private:
  static constexpr Count kParts = 2, kHalf = kLanes / 2;
  SplitSum<Doubles> sums_[kParts];
};

}  // namespace unisono::kernels::cpu::UNISONO_ISA
