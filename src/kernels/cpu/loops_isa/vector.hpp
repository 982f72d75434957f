#pragma once

#include <utility>

#include "cpu/loops.hpp"

#ifdef __AVX2__
#include <immintrin.h>
#endif

// One register of floats, in the compilers' common vector extension: arithmetic is written with operators.

namespace unisono::kernels::cpu::UNISONO_ISA {

#if defined(__AVX512F__)
inline constexpr Count kLanes = 16;
#elif defined(__AVX2__)
inline constexpr Count kLanes = 8;
#else
inline constexpr Count kLanes = 4;
#endif

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
/// clang heeds an alignment only in this place.
using UnalignedVector __attribute__((aligned(alignof(float)), may_alias)) = Vector;
static_assert(alignof(UnalignedVector) == alignof(float));

/// The result of comparing two Vectors: −1 where the comparison holds, else 0.
using Integers = std::int32_t __attribute__((vector_size(kLanes * sizeof(std::int32_t))));
/// As many bytes as a Vector, half as many numbers.
using Doubles = double __attribute__((vector_size(kLanes * sizeof(float))));

__attribute__((always_inline)) static inline Vector load(const float* from) {
  return *reinterpret_cast<const UnalignedVector*>(from);
}
__attribute__((always_inline)) static inline void store(float* to, Vector value) {
  *reinterpret_cast<UnalignedVector*>(to) = value;
}
/// Past the caches, where there is such an instruction. \pre `to` is aligned to a vector
__attribute__((always_inline)) static inline void stream(float* to, Vector value) {
#if defined(__AVX512F__)
  _mm512_stream_ps(to, value);
#elif defined(__AVX2__)
  _mm256_stream_ps(to, value);
#else
  store(to, value);
#endif
}
/// a b + c, rounded once where the CPU can: also where clang would take a product apart that it partly knows.
__attribute__((always_inline)) static inline Vector multiply_add(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__FMA__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
__attribute__((always_inline)) static inline Vector broadcast(float value) { return value - Vector{}; }
__attribute__((always_inline)) static inline Integers load(const std::int32_t* from) {
  Integers values;
  __builtin_memcpy(&values, from, sizeof values);
  return values;
}
#if defined(__AVX2__) && !defined(__AVX512F__)
/// −1 in the first n lanes, else 0.
__attribute__((always_inline)) static inline __m256i first_lanes(Count n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
#endif

/// The first n of kLanes numbers; the others are zero. \pre 0 ≤ n ≤ kLanes
__attribute__((always_inline)) static inline Integers load_first(const std::int32_t* from, Count n) {
#if defined(__AVX512F__)
  return reinterpret_cast<Integers>(_mm512_maskz_loadu_epi32(static_cast<__mmask16>((1U << n) - 1U), from));
#elif defined(__AVX2__)
  return reinterpret_cast<Integers>(_mm256_maskload_epi32(from, first_lanes(n)));
#else
  Integers value{};
  for (Count i = 0; i < n; ++i) value[i] = from[i];
  return value;
#endif
}
static inline Doubles load_doubles(const float* from) {
  float __attribute__((vector_size(kLanes * sizeof(float) / 2))) values;
  __builtin_memcpy(&values, from, sizeof values);
  return __builtin_convertvector(values, Doubles);
}

/// The value where the mask is set; elsewhere zero, whatever the value is there.
static inline Vector keep(Integers mask, Vector value) { return mask ? value : Vector{}; }

/// The sum of a vector's numbers in double, by pairwise halving.
static inline double total(Vector value) {
  double sums[kLanes];
  for (Count i = 0; i < kLanes; ++i) sums[i] = static_cast<double>(value[i]);
  for (Count half = kLanes / 2; half > 0; half /= 2) {
    for (Count i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  return sums[0];
}

/// The first n of kLanes values; the others are zero. \pre 0 ≤ n ≤ kLanes
__attribute__((always_inline)) static inline Vector load_first(const float* from, Count n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), from);
#elif defined(__AVX2__)
  return _mm256_maskload_ps(from, first_lanes(n));
#else
  Vector value{};
  for (Count i = 0; i < n; ++i) value[i] = from[i];
  return value;
#endif
}

__attribute__((always_inline)) static inline void store_first(float* to, Vector value, Count n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << n) - 1U), value);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(to, first_lanes(n), value);
#else
  for (Count i = 0; i < n; ++i) to[i] = value[i];
#endif
}

/// The lanes of a Vector that are in use: all, known to the compiler, or the first few.
struct AllLanes {
  static constexpr Count count = kLanes;
  Vector get(const float* from) const { return load(from); }
  void put(float* to, Vector value) const { store(to, value); }
};
struct FirstLanes {
  Count count;
  Vector get(const float* from) const { return load_first(from, count); }
  void put(float* to, Vector value) const { store_first(to, value, count); }
};

/// Calls work(i, lanes) for i = 0, kLanes, … < n, with the lanes that belong to [0, n).
template <typename Work>
__attribute__((always_inline)) static inline void for_each_vector(Count n, const Work& work) {
  Count i = 0;
  for (; i + kLanes <= n; i += kLanes) work(i, AllLanes{});
  if (i < n) work(i, FirstLanes{n - i});
}

template <int distance, int... column>
__attribute__((always_inline)) static inline void exchange(Vector& upper, Vector& lower,
                                                           std::integer_sequence<int, column...>) {
  constexpr int lanes = kLanes;
  const Vector a = upper, b = lower;
  upper = __builtin_shufflevector(a, b, ((column & distance) != 0 ? lanes + column - distance : column)...);
  lower = __builtin_shufflevector(a, b, ((column & distance) != 0 ? lanes + column : column + distance)...);
}

/// Two rows of a matrix exchange their off-diagonal blocks of `distance` columns: upper[j] ↔ lower[j − distance] where
/// bit `distance` of j is set. The step that transposing is made of.
template <int distance>
__attribute__((always_inline)) static inline void exchange(Vector& upper, Vector& lower) {
  exchange<distance>(upper, lower, std::make_integer_sequence<int, kLanes>());
}

/// Transposes a tile of kLanes × kLanes values by log₂ kLanes stages of exchanges: in the stage of distance s, rows i
/// and i + s exchange their off-diagonal blocks of s columns (Eklundh, IEEE Trans. Computers 1972).
template <int distance = kLanes / 2>
__attribute__((always_inline)) static inline void transpose_registers(Vector (&rows)[kLanes]) {
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) {
    if ((i & distance) == 0) exchange<distance>(rows[i], rows[i + distance]);
  }
  if constexpr (distance > 1) transpose_registers<distance / 2>(rows);
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
