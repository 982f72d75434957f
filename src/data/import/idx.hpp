#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unisono::data {

/// An array of unsigned bytes in the IDX format: two zero bytes, the type (8), the number of axes, each extent as 32
/// bits, most significant byte first, then the values in row-major order.
/// http://yann.lecun.com/exdb/mnist/
struct IdxArray {
  std::vector<std::int64_t> extent;
  std::span<const std::uint8_t> values;  ///< in the bytes that were parsed
};

/// \param name of the file, for messages
/// \throws DataError where the bytes are no such array, or too few or too many
IdxArray parse_idx(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace unisono::data
