#pragma once

#include "cpu/loops_isa/vector.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

// Philox 4x32-10 (see base/random.hpp) of several counters at once.

namespace unisono::kernels::cpu::UNISONO_ISA {

/// 32-bit words in the lower halves of 64-bit lanes, where their products have room. Upper halves may hold anything.
using Words = std::uint64_t __attribute__((vector_size(kLanes * sizeof(float))));
inline constexpr Count kWords = kLanes / 2;

/// The 64-bit products of the lower halves.
static inline Words multiply(Words a, Words b) {
#if defined(__AVX512F__)
  // With a mask of all lanes, for g++ 12 takes the other form's undefined lanes for uninitialised ones.
  return reinterpret_cast<Words>(
      _mm512_maskz_mul_epu32(0xFF, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Words>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
  return reinterpret_cast<Words>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
  return (a & 0xFFFFFFFFU) * (b & 0xFFFFFFFFU);
#endif
}

static inline Words load_words(const std::uint32_t* from) {
  std::uint32_t __attribute__((vector_size(kWords * sizeof(std::uint32_t)))) values;
  __builtin_memcpy(&values, from, sizeof values);
  return __builtin_convertvector(values, Words);
}

static inline void store_words(std::uint32_t* to, Words words) {
  using Halves = std::uint32_t __attribute__((vector_size(kWords * sizeof(std::uint32_t))));
  const Halves values = __builtin_convertvector(words, Halves);
  __builtin_memcpy(to, &values, sizeof values);
}

/// Counters, and then the random words that they give.
struct PhiloxWords {
  Words c0, c1, c2, c3;
};

static inline PhiloxWords philox(std::uint64_t key, PhiloxWords c) {
  const Words none{};
  std::uint64_t k0 = key & 0xFFFFFFFFU, k1 = key >> 32;
  for (int round = 0; round < 10; ++round) {
    const Words p0 = multiply(c.c0, none + 0xD2511F53U), p1 = multiply(c.c2, none + 0xCD9E8D57U);
    c = {(p1 >> 32) ^ c.c1 ^ k0, p1, (p0 >> 32) ^ c.c3 ^ k1, p0};
    k0 = (k0 + 0x9E3779B9U) & 0xFFFFFFFFU;
    k1 = (k1 + 0xBB67AE85U) & 0xFFFFFFFFU;
  }
  return c;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
