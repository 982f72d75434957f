#pragma once

#include "cpu/loops_isa/vector.hpp"

// Elementary functions of whole registers with low latency, for loops in which the next step waits for the result:
// polynomials are evaluated pair by pair (Estrin). Their errors of a few ulps are below the noise of a stochastic step.

namespace unisono::kernels::cpu::UNISONO_ISA {

/// The larger of each bound and value; NaN values stay.
__attribute__((always_inline)) static inline Vector at_least(Vector bound, Vector value) {
#if defined(__AVX512F__)
  return _mm512_maskz_max_ps(0xFFFF, bound, value);
#else
  return bound > value ? bound : value;
#endif
}

/// The smaller; NaN values stay.
__attribute__((always_inline)) static inline Vector at_most(Vector bound, Vector value) {
#if defined(__AVX512F__)
  return _mm512_maskz_min_ps(0xFFFF, bound, value);
#else
  return bound < value ? bound : value;
#endif
}

/// 2ᵗ; below 3 ulps. \pre −126 ≤ t ≤ 126
///   t = n + r, |r| ≤ ½; 2ʳ = 1 + r P(r), a minimax fit to 9.2e-8.
__attribute__((always_inline)) static inline Vector power_of_two(Vector t) {
  const Vector round = broadcast(0x1.8p23F);  // added and subtracted, rounds to an integer, which is in the low bits
  const Vector shifted = t + round;
  const Vector r = t - (shifted - round), square = r * r;
  const Vector low = r * 0x1.62e42ap-1F + 1.0F, middle = r * 0x1.c6b752p-5F + 0x1.ebf9bcp-3F;
  const Vector high = r * 0x1.5bba14p-10F + 0x1.3cea88p-7F;
  const Vector fraction = (high * square + middle) * square + low;
  const Integers exponent = (__builtin_bit_cast(Integers, shifted) << 23) + (127 << 23);
  return fraction * __builtin_bit_cast(Vector, exponent);
}

/// The same for t = x · factor, clamped to [−126, 126].
__attribute__((always_inline)) static inline Vector power_of_two(Vector x, float factor) {
  return power_of_two(at_most(broadcast(126.0F), at_least(broadcast(-126.0F), x * broadcast(factor))));
}

/// 1 / √x = estimate · twice / 2: the CPU's estimate y, and 3 − x y², twice the factor of a Newton step. They are
/// separate so that the caller can multiply in the order of least latency. The relative error is at most 2.5e-7. \pre 0
/// < x < ∞
struct InverseRoot {
  Vector estimate, twice;
};
__attribute__((always_inline)) static inline InverseRoot inverse_root(Vector x) {
#if defined(__AVX512F__)
  const Vector y = _mm512_maskz_rsqrt14_ps(0xFFFF, x);
  return {y, 3.0F - (x * y) * y};
#elif defined(__AVX2__)
  const Vector y = _mm256_rsqrt_ps(x);
  return {y, 3.0F - (x * y) * y};
#else
  Vector root;
  for (Count i = 0; i < kLanes; ++i) root[i] = __builtin_sqrtf(x[i]);
  return {1.0F / root, broadcast(2.0F)};
#endif
}

/// 1 / (1 + e⁻ˣ). For |x| < 16 the error is at most 3e-7, relative to the result and to 1 minus the result. At −∞ it is
/// 1.2e-38, not 0.
__attribute__((always_inline)) static inline Vector logistic(Vector x) {
  return 1.0F / (1.0F + power_of_two(x, -0x1.715476p0F));
}

/// The same of one float: 1 / (1 + e⁻ˣ) = s / (s + 2ʳ) with s = 2⁻ⁿ, −x log₂ e = n + r.
__attribute__((always_inline)) static inline float logistic_quickly(float x) {
  const float t = x * -0x1.715476p0F, above = t < -126.0F ? -126.0F : t, bounded = above > 126.0F ? 126.0F : above;
  const float shifted = bounded + 0x1.8p23F, r = bounded - (shifted - 0x1.8p23F), square = r * r;
  const float low = r * 0x1.62e42ap-1F + 1.0F, middle = r * 0x1.c6b752p-5F + 0x1.ebf9bcp-3F;
  const float high = r * 0x1.5bba14p-10F + 0x1.3cea88p-7F;
  const float fraction = (high * square + middle) * square + low;
  const auto exponent = (127U << 23) - (__builtin_bit_cast(std::uint32_t, shifted) << 23);
  const float scale = __builtin_bit_cast(float, exponent);
  return scale / (scale + fraction);
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
