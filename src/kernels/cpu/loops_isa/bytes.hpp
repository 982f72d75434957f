#pragma once

#include "cpu/loops_isa/vector.hpp"

#ifdef __SSE2__
#include <immintrin.h>
#endif

// One register of integers from and to bytes in memory. g++ 12 moves the lanes of __builtin_convertvector between 8 and
// 32 bits one by one; where there is no instruction for it, two steps by way of 16 bits are several times as fast.

namespace unisono::kernels::cpu::UNISONO_ISA {

using Bytes = std::uint8_t __attribute__((vector_size(kLanes)));
using SignedBytes = std::int8_t __attribute__((vector_size(kLanes)));
using SignedHalves = std::int16_t __attribute__((vector_size(2 * kLanes)));

/// The first `count` of kLanes bytes; the others are 0.
__attribute__((always_inline)) static inline Integers load_bytes(const std::uint8_t* from, Count count) {
  Bytes bytes{};
  __builtin_memcpy(&bytes, from, static_cast<std::size_t>(count));
#if defined(__AVX512F__)  // with a mask: see `multiply` in philox.hpp
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepu8_epi32(0xFFFF, reinterpret_cast<__m128i>(bytes)));
#elif defined(__AVX2__)
  return reinterpret_cast<Integers>(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(reinterpret_cast<long long>(bytes))));
#else
  using Halves = std::uint16_t __attribute__((vector_size(2 * kLanes)));
  return __builtin_convertvector(__builtin_convertvector(bytes, Halves), Integers);
#endif
}

__attribute__((always_inline)) static inline Integers load_bytes(const std::int8_t* from, Count count) {
  SignedBytes bytes{};
  __builtin_memcpy(&bytes, from, static_cast<std::size_t>(count));
#if defined(__AVX512F__)
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepi8_epi32(0xFFFF, reinterpret_cast<__m128i>(bytes)));
#elif defined(__AVX2__)
  return reinterpret_cast<Integers>(_mm256_cvtepi8_epi32(_mm_cvtsi64_si128(reinterpret_cast<long long>(bytes))));
#else
  return __builtin_convertvector(__builtin_convertvector(bytes, SignedHalves), Integers);
#endif
}

/// Stores the low 8 bits of the first `count` lanes.
__attribute__((always_inline)) static inline void store_bytes(void* to, Integers values, Count count) {
#if defined(__AVX512F__)
  const __m128i bytes = _mm512_maskz_cvtepi32_epi8(0xFFFF, reinterpret_cast<__m512i>(values));
#else
  const SignedBytes bytes = __builtin_convertvector(__builtin_convertvector(values, SignedHalves), SignedBytes);
#endif
  __builtin_memcpy(to, &bytes, static_cast<std::size_t>(count));
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
