#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <utility>

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

}  // namespace unisono::data::hdf5
