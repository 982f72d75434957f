#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace unisono {

using Index = std::ptrdiff_t;  ///< counts and extents: 64 bits throughout
using View = std::span<const float>;
using MutableView = std::span<float>;

/// Bases are aligned to this many bytes: one cache line, one AVX-512 register.
inline constexpr std::size_t kAlignmentBytes = 64;
inline constexpr Index kLineFloats = kAlignmentBytes / sizeof(float);

/// The same memory, filled up to whole cache lines.
inline constexpr Index round_up_to_line(Index floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }
inline constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

/// Where θ, g and resident data live: plain memory, pinned memory, or a window that the ranks of a node share.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Zeroed memory, aligned to kAlignmentBytes. Collective over the ranks of the node where the memory is shared.
  /// \throws DeviceError where there is not so much.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer) noexcept = 0;
};

/// Ordinary memory of this process.
Allocator& plain_allocator();

/// Owns `size()` floats from an allocator, which must outlive it.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(Index size, Allocator& allocator = plain_allocator())
      : allocator_(&allocator),
        data_(static_cast<float*>(allocator.allocate(static_cast<std::size_t>(size) * sizeof(float)))),
        size_(size) {}
  ~Buffer() {
    if (data_ != nullptr) allocator_->deallocate(data_);
  }
  Buffer(Buffer&& other) noexcept
      : allocator_(other.allocator_),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(allocator_, other.allocator_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  Index size() const noexcept { return size_; }
  float* data() noexcept { return data_; }
  const float* data() const noexcept { return data_; }
  MutableView view() noexcept { return {data_, static_cast<std::size_t>(size_)}; }
  View view() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  Allocator* allocator_ = nullptr;
  float* data_ = nullptr;
  Index size_ = 0;
};

}  // namespace unisono
