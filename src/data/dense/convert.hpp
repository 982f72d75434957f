#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "dense/schema.hpp"

namespace unisono::data {

/// Converts a finite binary16 number to float, exactly. The exponent's bias is 15, a float's is 127: hence the factor
/// 2¹¹².
inline float to_float(hdf5::Half half) {
  const std::uint32_t magnitude = (half.bits & 0x7FFFU) << 13, sign = (half.bits & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112F) | sign);
}
inline float to_float(std::uint8_t value) { return static_cast<float>(value); }
inline float to_float(float value) { return value; }

/// Calls act(pointer to the stored values), with the pointer's type according to `storage`.
template <typename Act>
void with_stored(Storage storage, const std::byte* stored, Act act) {
  switch (storage) {
    case Storage::uint8:
      return act(reinterpret_cast<const std::uint8_t*>(stored));
    case Storage::float16:
      return act(reinterpret_cast<const hdf5::Half*>(stored));
    case Storage::float32:
      return act(reinterpret_cast<const float*>(stored));
  }
}

/// values[i] = a · stored[i] + b
void convert(Storage storage, const std::byte* stored, std::size_t count, float a, float b, float* values);

/// values[i] = a[i] · stored[i] + b[i]
void convert(Storage storage, const std::byte* stored, std::size_t count, const float* a, const float* b,
             float* values);

}  // namespace unisono::data
