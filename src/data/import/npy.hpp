#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unisono::data {

/// An array of NumPy: bytes as they are, all other numbers as floats.
struct NpyArray {
  std::vector<std::int64_t> extent = {};
  bool bytes = false;
  std::vector<std::uint8_t> values_of_bytes = {};
  std::vector<float> values = {};
};

/// Whether a file begins as those of NumPy do.
bool is_npy(std::span<const std::uint8_t> bytes);

/// Version 1 to 3 of the format (numpy.lib.format), of integers or floats in the order of C.
/// \throws DataError naming the file and what is wrong
NpyArray parse_npy(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace unisono::data
