#pragma once

#include <hdf5.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "unisono/data/hdf5.hpp"

namespace unisono::data::hdf5 {

/// Held during every call of the library, which is not thread-safe. Recursive: public functions call each other.
class LibraryLock {
 public:
  LibraryLock();

 private:
  std::unique_lock<std::recursive_mutex> lock_;
};

/// Owns an identifier of the library; a negative one means that the call that returned it failed.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  bool valid() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// A link-creation property list that makes missing parent groups.
Handle make_parents();

/// The library's message about its last call, from the innermost function that failed; empty if the call succeeded.
/// Every call resets it, even closing a handle.
std::string innermost_reason();

/// IEEE binary16, little-endian; the library has no constant for it.
Handle make_float16_type();

/// Strings of variable length. \param set as stored: the library does not convert between ASCII and UTF-8
Handle text_type(H5T_cset_t set = H5T_CSET_UTF8);

Type type_of(hid_t datatype);

/// The library's type for T in memory.
template <typename T>
Handle memory_type();
template <>
Handle memory_type<std::uint8_t>();
template <>
Handle memory_type<std::uint16_t>();
template <>
Handle memory_type<std::uint32_t>();
template <>
Handle memory_type<std::int32_t>();
template <>
Handle memory_type<std::int64_t>();
template <>
Handle memory_type<std::uint64_t>();
template <>
Handle memory_type<float>();
template <>
Handle memory_type<double>();

/// The extent of a dataset; empty for a scalar.
std::vector<hsize_t> extent_of(hid_t dataset);

/// The dataspaces of a transfer of rows: in the file and in memory.
struct RowSelection {
  Handle file, memory;
};

/// \pre first + count ≤ extent[0]
RowSelection select_rows(hid_t dataset, std::vector<hsize_t> extent, hsize_t first, hsize_t count);

/// What is wrong with rows that are out of the dataset's range; empty if they are not.
std::string outside(const std::vector<hsize_t>& extent, std::uint64_t first, std::uint64_t count);

}  // namespace unisono::data::hdf5
