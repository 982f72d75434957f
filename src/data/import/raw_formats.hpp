#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/data/import.hpp"

namespace unisono::data {

/// Makes a set of a table's raw rows, all in the group `test`, for a model that was trained on such columns. Labels or
/// targets are kept where each row has one that the model knows.
/// \return why they are left out; empty where they are not, or where there is no such column
/// \throws DataError naming line, column and value of what the model does not know
std::string write_raw_table(const std::string& path, const Preprocessing& trained, const ImportOutput& output);

/// Makes a set of lines of LIBSVM, all in the group `test`, with the columns that a model was trained on. See
/// import_raw.
std::string write_raw_rows(const std::string& path, const RawForm& form, const ImportOutput& output);

/// Makes a set of a text, all in the group `test`, with the tokenizer of a model. See import_raw.
std::string write_raw_text(const std::string& path, const RawForm& form, const ImportOutput& output);

/// Makes a set of a JPEG or PNG file, or of all in a folder, all in the group `test`, for a model that was trained on
/// pictures. See import_raw.
std::string write_raw_pictures(const std::string& path, const Preprocessing& trained, const ImportOutput& output);

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

/// An array of NumPy: bytes as they are, all other numbers as floats.
struct NpyArray {
  std::vector<std::int64_t> extent = {};
  bool bytes = false;
  std::vector<std::uint8_t> values_of_bytes = {};
  std::vector<float> values = {};
};

/// Whether a file begins as those of NumPy do.
bool is_npy(std::span<const std::uint8_t> bytes);

/// Version 1 to 3 of the format (numpy.lib.format), of integers or floats in either byte order, in the order of C or of
/// Fortran; what is returned is in the order of C.
/// \throws DataError naming the file and what is wrong
NpyArray parse_npy(std::span<const std::uint8_t> bytes, const std::string& name);

}  // namespace unisono::data
