#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace unisono::data {

inline constexpr std::int64_t kCifarPixels = 3 * 32 * 32;  ///< [3, 32, 32], row-major
inline constexpr std::int64_t kCifarRecord = 1 + kCifarPixels;
inline constexpr int kCifarClasses = 10;

/// One file of CIFAR-10's binary version: records of a label and an image.
/// https://www.cs.toronto.edu/~kriz/cifar.html
struct CifarBatch {
  std::vector<std::uint8_t> labels;  ///< [n]
  std::vector<std::uint8_t> pixels;  ///< [n, 3, 32, 32]
};

/// Appends a file's records. \param name of the file, for messages
/// \throws DataError where the bytes are no whole number of records, at least one, or a label is no class
void parse_cifar(std::span<const std::uint8_t> bytes, const std::string& name, CifarBatch& batch);

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
