#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

namespace unisono::hdf5 {

/// Strings of any length, allocated by the library.
struct LibraryText {
  std::vector<char*> pointers;
  explicit LibraryText(std::size_t size) : pointers(size, nullptr) {}
  ~LibraryText() {
    for (char* pointer : pointers) H5free_memory(pointer);
  }
  LibraryText(const LibraryText&) = delete;
  LibraryText& operator=(const LibraryText&) = delete;

  std::vector<std::string> strings() const {
    std::vector<std::string> values;
    values.reserve(pointers.size());
    for (const char* pointer : pointers) values.emplace_back(pointer == nullptr ? "" : pointer);
    return values;
  }
};

/// Strings that take `length` bytes each, filled up with zeros.
inline std::vector<std::string> cut_fixed(const std::string& text, std::size_t length) {
  std::vector<std::string> values;
  for (std::size_t at = 0; at < text.size(); at += length) values.emplace_back(text.substr(at, length).c_str());
  return values;
}

}  // namespace unisono::hdf5
