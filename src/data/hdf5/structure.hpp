#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unisono/base/raw_file.hpp"

namespace unisono::data::hdf5 {

/// Called before the library opens a file: walks its groups, object headers and chunk trees, if they have the format
/// from before 1.8 (the default, which has no checksums), and checks what the library (1.10) trusts: sizes and
/// addresses in local heaps, trees and layouts. Other damage is found by the library.
/// \throws DataError, without a path in the message
void check_structure(const std::string& path);

/// A little-endian number of so many bytes, as HDF5 stores them.
std::uint64_t number_at(const std::byte* at, int bytes);

/// The location of a string of variable length: an object in a collection of the file's global heap.
struct HeapReference {
  static constexpr std::size_t kBytes = 16;  ///< size in the file, if addresses have 8 bytes
  std::uint64_t address = 0;                 ///< of the collection; 0: the string is empty
  std::uint32_t index = 0;
};
HeapReference decode_reference(const std::byte* stored);

/// Reads strings of variable length out of a file's bytes. The library (1.10) reads out of bounds for a damaged
/// reference, and loops for ever in a damaged collection. This reader checks that everything lies inside the file
/// before it follows it, and that all collections together, and all strings, are no larger than the file.
///   HDF5 File Format Specification, version 3, III.E "Global heap"
class HeapReader {
 public:
  /// \param base bytes from the file's start, from which addresses count
  HeapReader(const RawFile& file, std::uint64_t base) : file_(file), base_(base), bytes_(file.size()) {}

  /// The string up to its first zero byte. \throws DataError, without a path in the message
  std::string string_at(const HeapReference& reference);

 private:
  struct Object {
    std::uint64_t first = 0, bytes = 0;  ///< in the collection
  };
  struct Collection {
    std::vector<std::byte> bytes;
    std::map<std::uint32_t, Object> objects;
  };
  const Collection& collection_at(std::uint64_t address);
  void find_objects(Collection& collection, std::uint64_t address) const;

  const RawFile& file_;
  std::uint64_t base_, bytes_;
  std::uint64_t read_ = 0, given_ = 0;  ///< bytes of collections and of strings so far
  std::map<std::uint64_t, Collection> collections_;
};

}  // namespace unisono::data::hdf5
