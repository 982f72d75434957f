#pragma once

#include "cpu/loops.hpp"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

// One register of floats, in the compilers' common vector extension: arithmetic is written with operators.

namespace unisono::cpu::UNISONO_ISA {

#if defined(__AVX512F__)
inline constexpr Count kLanes = 16;
#elif defined(__AVX2__)
inline constexpr Count kLanes = 8;
#else
inline constexpr Count kLanes = 4;
#endif

using Vector = float __attribute__((vector_size(kLanes * sizeof(float))));
using UnalignedVector = float __attribute__((vector_size(kLanes * sizeof(float)), aligned(alignof(float)), may_alias));

static inline Vector load(const float* from) { return *reinterpret_cast<const UnalignedVector*>(from); }
static inline void store(float* to, Vector value) { *reinterpret_cast<UnalignedVector*>(to) = value; }
static inline Vector broadcast(float value) { return value - Vector{}; }

/// The first n of kLanes values; the others are zero. \pre 0 ≤ n ≤ kLanes
static inline Vector load_first(const float* from, Count n) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << n) - 1U), from);
#else
  Vector value{};
  for (Count i = 0; i < n; ++i) value[i] = from[i];
  return value;
#endif
}

static inline void store_first(float* to, Vector value, Count n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, static_cast<__mmask16>((1U << n) - 1U), value);
#else
  for (Count i = 0; i < n; ++i) to[i] = value[i];
#endif
}

}  // namespace unisono::cpu::UNISONO_ISA
