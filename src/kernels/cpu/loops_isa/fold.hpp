#pragma once

#include "cpu/loops_isa/vector.hpp"

// Horizontal sums of many registers at once: in log₂ n steps, each of which halves the number of registers. Summing
// each register by itself would take log₂ kLanes steps for every one.

namespace unisono::kernels::cpu::UNISONO_ISA {

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

}  // namespace unisono::kernels::cpu::UNISONO_ISA
