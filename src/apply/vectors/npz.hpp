#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/new_file.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::apply {

/// Writes NumPy's .npz: an uncompressed zip archive with one .npy file per array, up to 4 GiB.
class NpzWriter {
 public:
  explicit NpzWriter(NewFile& file) : file_(file) {}

  /// Adds NAME.npy: float32, row-major. \throws OutputError where the archive would grow beyond 4 GiB
  void add(const std::string& name, const std::vector<Index>& shape, View values);
  /// Writes the archive's directory; `add` must not be called afterwards.
  void finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc = 0, size = 0, offset = 0;
  };
  void write(const std::string& bytes);

  NewFile& file_;
  std::vector<Entry> entries_;
  std::uint64_t written_ = 0;
};

/// The beginning of an .npy file of float32: magic, version 1.0 and header, padded to a multiple of 64 bytes.
std::string npy_header(const std::vector<Index>& shape);

}  // namespace unisono::apply
