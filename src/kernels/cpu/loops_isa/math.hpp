#pragma once

#include <cstdint>

// Elementary functions of one float that compilers vectorise: no branches, no tables, no calls. NaN gives NaN. The
// polynomials are minimax fits (Lawson's reweighted least squares) to the relative error of the result. Errors are in
// ulps of the result and were found by trying every float above 2⁻¹⁴, with and without fused multiply-adds.

namespace unisono::kernels::cpu::UNISONO_ISA {

/// 2ⁿ for −126 ≤ n ≤ 127.
static inline float power_of_two(std::uint32_t n) { return __builtin_bit_cast(float, (n + 127U) << 23); }

/// eˣ; below 1.1 ulps. Results below the smallest normal float may be zero.
///   x = n ln 2 + r, |r| ≤ ln 2 / 2; eʳ = 1 + r + r² P(r). 2ⁿ is applied in two factors, for it may overflow where eˣ
///   does not.
static inline float exponential(float x) {
  constexpr float kRound = 0x1.8p23F;  // added and subtracted, rounds to an integer, which is then in the low bits
  const float bounded = x < -104.0F ? -104.0F : (x > 89.0F ? 89.0F : x);
  const float shifted = bounded * 0x1.715476p0F + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * 0x1.63p-1F) + n * 0x1.bd0106p-13F;  // ln 2 = 0x1.63p-1 − 0x1.bd0106p-13
  float p = 0x1.6a1a72p-10F;
  p = p * r + 0x1.123fc6p-7F;
  p = p * r + 0x1.555916p-5F;
  p = p * r + 0x1.55548ap-3F;
  p = p * r + 0x1.fffffcp-2F;
  p = (p * r) * r + r + 1.0F;
  const auto exponent = __builtin_bit_cast(std::uint32_t, shifted) - __builtin_bit_cast(std::uint32_t, kRound);
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  return p * power_of_two(half) * power_of_two(exponent - half);
}

/// eˣ − 1 for x ≤ 88, constant beyond; below 1.5 ulps.
///   = 2ⁿ (eʳ − 1) + (2ⁿ − 1), r and P as above: nothing cancels, for 2ⁿ − 1 is exact and 0 where |x| ≤ ln 2 / 2.
static inline float exponential_less_one(float x) {
  constexpr float kRound = 0x1.8p23F;
  const float bounded = x < -87.0F ? -87.0F : (x > 88.0F ? 88.0F : x);
  const float shifted = bounded * 0x1.715476p0F + kRound;
  const float n = shifted - kRound;
  const float r = (bounded - n * 0x1.63p-1F) + n * 0x1.bd0106p-13F;
  float p = 0x1.6a1a72p-10F;
  p = p * r + 0x1.123fc6p-7F;
  p = p * r + 0x1.555916p-5F;
  p = p * r + 0x1.55548ap-3F;
  p = p * r + 0x1.fffffcp-2F;
  const float less_one = (p * r) * r + r;
  const float power =
      power_of_two(__builtin_bit_cast(std::uint32_t, shifted) - __builtin_bit_cast(std::uint32_t, kRound));
  return power * less_one + (power - 1.0F);
}

/// log(1 + u) for 0 ≤ u ≤ 1; below 2 ulps. = 2 artanh z with z = u / (2 + u).
static inline float log_one_plus(float u) {
  const float z = u / (2.0F + u), square = z * z;
  float p = 0x1.f1733cp-3F;
  p = p * square + 0x1.b6e6cep-3F;
  p = p * square + 0x1.2508b0p-2F;
  p = p * square + 0x1.9996b0p-2F;
  p = p * square + 0x1.555558p-1F;
  return (p * square) * z + 2.0F * z;
}

/// ln x of a normal x > 0; below 2 ulps. 0 gives −∞, negative x NaN, ∞ and NaN themselves.
///   x = 2ⁿ m, √½ ≤ m < √2; ln m = 2 artanh z with z = (m − 1) / (m + 1).
static inline float natural_logarithm(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x) - 0x3f3504f3U;  // √½
  const auto n = static_cast<float>(static_cast<std::int32_t>(bits) >> 23);
  const float m = __builtin_bit_cast(float, (bits & 0x007fffffU) + 0x3f3504f3U);
  const float f = m - 1.0F, z = f / (1.0F + m), square = z * z;
  float p = 0x1.e2f2d4p-3F;
  p = p * square + 0x1.2438f2p-2F;
  p = p * square + 0x1.999a7ap-2F;
  p = p * square + 0x1.555554p-1F;
  const float finite = n * 0x1.62e4p-1F + (n * 0x1.7f7d1cp-20F + (z * (square * p) + 2.0F * z));
  const float infinite = x == 0.0F ? -__builtin_inff() : (x < 0.0F ? __builtin_nanf("") : x);
  return x > 0.0F && x < __builtin_inff() ? finite : infinite;
}

/// tanh x; below 1.4 ulps. Near zero x + x³ P(x²), further out 1 − 2 / (e²ˣ + 1).
static inline float hyperbolic_tangent(float x) {
  const float size = __builtin_fabsf(x), square = x * x;
  float p = -0x1.75e1cap-8F;
  p = p * square + 0x1.52269ap-6F;
  p = p * square - 0x1.b83c5ap-5F;
  p = p * square + 0x1.110726p-3F;
  p = p * square - 0x1.555532p-2F;
  const float inner = (p * square) * x + x;
  const float outer = __builtin_copysignf(1.0F - 2.0F / (exponential(2.0F * size) + 1.0F), x);
  return size < 0.625F ? inner : outer;
}

/// 1 / (1 + e⁻ˣ); below 2.5 ulps.
static inline float logistic(float x) { return 1.0F / (1.0F + exponential(-x)); }

/// log(1 + e^−|x|) = log(1 + eˣ) − max(x, 0); below 3 ulps.
static inline float softplus_tail(float x) { return log_one_plus(exponential(-__builtin_fabsf(x))); }

/// √2π times the normal density: e^(−x²/2); below 2 ulps.
///   Rounding x² would cost x²/2 ulps. So x² = h² + (x − h)(x + h), where h² is exact for it has the upper 12 bits of
///   x, and e⁻ᵈ ≈ 1 − d + d²/2 − d³/6 + d⁴/24 for the rest, d < 0.07.
static inline float bell(float x) {
  const float size = __builtin_fabsf(x), bounded = size > 16.0F ? 16.0F : size;  // e⁻¹²⁸ is below the floats
  const float h = __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, bounded) & 0xFFFFF000U);
  const float d = 0.5F * (bounded - h) * (bounded + h);
  const float p = 1.0F - d * (1.0F - d * (0.5F - d * (0x1.555556p-3F - d * 0x1.555556p-5F)));
  return exponential(-0.5F * h * h) * p;
}

/// The normal distribution function Φ(x) = (1 + erf(x/√2)) / 2, from `bell` = e^(−x²/2); below 8.5 ulps.
///   Φ(−t) = e^(−t²/2) s P(s), s = 1 / (1 + 0.265 t), t ≥ 0; the form of Abramowitz and Stegun 26.2.17, refitted.
static inline float normal_distribution(float x, float bell) {
  const float s = 1.0F / (1.0F + 0.265F * __builtin_fabsf(x));
  float p = 0x1.f8f7cep-6F;
  p = p * s - 0x1.276134p-3F;
  p = p * s + 0x1.be1586p-3F;
  p = p * s - 0x1.dc9e88p-4F;
  p = p * s + 0x1.1a8700p-3F;
  p = p * s + 0x1.ee15fcp-5F;
  p = p * s + 0x1.a4a9c2p-4F;
  p = p * s + 0x1.af1722p-4F;
  p = p * s + 0x1.b11e10p-4F;
  const float tail = bell * s * p;
  return x > 0.0F ? 1.0F - tail : tail;
}

}  // namespace unisono::kernels::cpu::UNISONO_ISA
