#pragma once

#include <cstddef>
#include <cstdint>

// The inner loops of encoders; loops.hpp says what all loops have in common. Bit i of a bitmap is bit i mod 64 of its
// word i div 64; bits behind the last value are 0.

namespace unisono::kernels::cpu {

using Count = std::ptrdiff_t;

struct EncoderLoops {
  /// halves[i] = v[i] rounded to bfloat16; v[i] −= that
  void (*encode_bf16)(float* v, Count n, std::uint16_t* halves);
  /// sum[i] += halves[i]
  void (*add_bf16)(const std::uint16_t* halves, Count n, float* sum);

  /// max |v|
  float (*largest)(const float* v, Count n);
  /// codes[i] = ⌊v[i] · inverse + u_i⌋, at most ±127; v[i] −= codes[i] · scale. u_i is the (i mod 8)-th half word of
  /// philox(key, {counter + i div 8, position, …}), over 2¹⁶. \param n at most 256
  void (*encode_eight_bit)(const struct EightBitBlock& block, float* v, Count n, std::int8_t* codes);
  /// sum[i] += codes[i] · scale
  void (*add_eight_bit)(float scale, const std::int8_t* codes, Count n, float* sum);

  /// The signs, and means[0] of the values that are not negative, means[1] of the others; v[i] −= its sign's mean.
  void (*encode_one_bit)(float* v, Count n, std::uint64_t* negative, float* means);
  /// sum[i] += the mean of value i's sign
  void (*add_one_bit)(const float* means, const std::uint64_t* negative, Count n, float* sum);

  /// Marks the values with |v| ≥ magnitude. \return how many these are
  Count (*mark)(float magnitude, const float* v, Count n, std::uint64_t* present);
  /// Likewise, and marks the negative ones of them; v[i] −= ±τ there.
  Count (*mark_signed)(float tau, float* v, Count n, std::uint64_t* present, std::uint64_t* negative);
  /// sum[i] += ±τ where `present`
  void (*add_signed)(float tau, const std::uint64_t* present, const std::uint64_t* negative, Count n, float* sum);
};

/// A block of at most 256 values, and the counter of its random numbers.
struct EightBitBlock {
  float scale = 0, inverse = 0;
  std::uint64_t key = 0;
  std::uint32_t counter[4] = {};  ///< the first word is advanced by one for each eight values
};

}  // namespace unisono::kernels::cpu
