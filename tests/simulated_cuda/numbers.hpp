#pragma once
// The number formats of the libraries' tensors, as bits in memory and as double.

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace simulated {

enum class Number { float32, bfloat16 };

constexpr std::size_t size_of(Number number) { return number == Number::float32 ? 4 : 2; }

/// To the nearest number whose lowest `dropped` bits of the fraction are 0; halves go to the even one. Not a number
/// stays that, and what rounds beyond the largest number becomes infinite.
inline float rounded(float value, int dropped) {
  if (!std::isfinite(value)) return value;
  auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t half = 1U << (dropped - 1);
  bits += half - 1 + (bits >> dropped & 1U);
  return std::bit_cast<float>(bits >> dropped << dropped);
}

inline float to_tf32(float value) { return rounded(value, 13); }

/// From double in one rounding: to odd at first, so that the second one sees on which side of a half the value lay.
inline float to_bfloat16(double value) {
  auto narrow = static_cast<float>(value);
  if (!std::isfinite(narrow) || static_cast<double>(narrow) == value) return rounded(narrow, 16);
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  if (std::abs(static_cast<double>(narrow)) > std::abs(value)) --bits;  // towards zero
  return rounded(std::bit_cast<float>(bits | 1U), 16);
}

/// The value as it is after it was stored.
inline double as_stored(Number number, double value) {
  return number == Number::float32 ? static_cast<double>(static_cast<float>(value)) : to_bfloat16(value);
}

inline double load(Number number, const void* array, std::int64_t index) {
  if (number == Number::float32) return static_cast<const float*>(array)[index];
  return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<const std::uint16_t*>(array)[index]) << 16);
}

inline void store(Number number, void* array, std::int64_t index, double value) {
  if (number == Number::float32) {
    static_cast<float*>(array)[index] = static_cast<float>(value);
  } else {
    const auto bits = std::bit_cast<std::uint32_t>(to_bfloat16(value));
    // A NaN whose upper half is that of an infinity must stay one.
    static_cast<std::uint16_t*>(array)[index] = std::isnan(value) ? 0x7FFF : static_cast<std::uint16_t>(bits >> 16);
  }
}

}  // namespace simulated
