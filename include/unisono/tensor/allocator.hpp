#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace unisono {

using Index = std::ptrdiff_t;  ///< counts and extents: 64 bits throughout
/// A vector of floats that somebody else owns, to be read.
using View = std::span<const float>;
/// A vector of floats that somebody else owns, to be read and written.
using MutableView = std::span<float>;

/// The beginnings of vectors are aligned to so many bytes: one cache line, one AVX-512 register.
inline constexpr std::size_t kAlignmentBytes = 64;
/// Floats of a cache line.
inline constexpr Index kLineFloats = kAlignmentBytes / sizeof(float);

/// A number of floats rounded up to whole cache lines.
inline constexpr Index round_up_to_line(Index floats) { return (floats + kLineFloats - 1) / kLineFloats * kLineFloats; }
/// A number of bytes rounded up to whole cache lines.
inline constexpr std::size_t aligned_bytes(std::size_t bytes) {
  return (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
}

/// Allocates the memory for θ, g and resident data: plain memory (ordinary host memory), pinned memory, a window that
/// the ranks of a node share, or the memory of a device.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// Zeroed memory, aligned to kAlignmentBytes. Collective over the ranks of the node where the memory is shared.
  /// \throws DeviceError where there is not enough memory.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void deallocate(void* pointer) noexcept = 0;

  /// to = from; each is memory of this allocator or plain memory. When `copy` returns, a plain `to` holds the values,
  /// and a plain `from` may be changed.
  virtual void copy(View from, MutableView to) { std::ranges::copy(from, to.begin()); }
  /// Whether all code of this process may read and write the memory. If not, only `copy` and kernels of the memory's
  /// device may.
  virtual bool is_plain() const { return true; }
};

/// Ordinary memory of this process.
Allocator& plain_allocator();
/// Ordinary memory of this process, in whole pages for each allocation, which a device may pin.
Allocator& page_allocator();

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
  Allocator& allocator() const noexcept { return *allocator_; }
  MutableView view() noexcept { return {data_, static_cast<std::size_t>(size_)}; }
  View view() const noexcept { return {data_, static_cast<std::size_t>(size_)}; }

 private:
  Allocator* allocator_ = nullptr;
  float* data_ = nullptr;
  Index size_ = 0;
};

/// Lets any code read and write a vector: the vector itself where its memory is plain, else a plain copy.
class PlainValues {
 public:
  /// \param memory the vector's allocator; allocator and vector must outlive this object
  PlainValues(Allocator& memory, MutableView vector) : memory_(memory), vector_(vector) {
    if (memory_.is_plain()) return;
    copy_ = Buffer(std::ssize(vector));
    memory_.copy(vector, copy_.view());
  }
  MutableView view() { return memory_.is_plain() ? vector_ : copy_.view(); }
  /// Copies changes that were made to the view back to the vector.
  void put_back() {
    if (!memory_.is_plain()) memory_.copy(copy_.view(), vector_);
  }

 private:
  Allocator& memory_;
  MutableView vector_;
  Buffer copy_;
};

/// The memory of floats, used for doubles. \param floats two for each double, beginning at a cache line
inline std::span<double> as_doubles(MutableView floats) {
  return {reinterpret_cast<double*>(floats.data()), floats.size() / 2};
}

/// Bytes of a huge page.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Asks for huge pages where these fit into some memory: random accesses then cause few TLB misses, and first writes
/// few page faults. A hint, which may have no effect.
void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept;

/// An asynchronous copy, under way or done.
class StartedCopy {
 public:
  virtual ~StartedCopy() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;
};

/// What `comm` needs of a GPU: the GPU's memory, copies between that and plain memory, and the GPU's stream; no
/// kernels. Used by one thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  /// Whether a pointer is into memory of the device.
  virtual bool owns(const void* pointer) const = 0;
  virtual Allocator& memory() = 0;
  /// Pinned plain memory, which copies are fastest from and to. Copies from and to other plain memory are synchronous.
  virtual Allocator& pinned() = 0;

  /// Starts to[…] = from[…], from the device's memory to plain memory. The copy begins after all work that was queued
  /// before. Work that is queued later does not wait for it. Plain memory must not be used until the copy is done.
  virtual std::unique_ptr<StartedCopy> start_download(const void* from, void* to, std::size_t bytes) = 0;
  /// Starts to[…] = from[…], from plain memory to the device's memory. The copy begins after all work that was queued
  /// before. Work that is queued later waits for it. Plain memory must not change until the copy is done.
  virtual std::unique_ptr<StartedCopy> start_upload(const void* from, void* to, std::size_t bytes) = 0;
  /// Pins plain memory that was allocated elsewhere, until `unpin`. Where that fails, copies from and to this memory
  /// are slower.
  virtual void pin(void* pointer, std::size_t bytes) = 0;
  virtual void unpin(void* pointer) noexcept = 0;

  /// Starts all work that was queued so far. \return the device's stream (a cudaStream_t), to which callers may add
  /// work
  virtual void* submit() = 0;
  /// Waits for all work that was queued so far. \throws DeviceError
  virtual void synchronise() = 0;

  /// How to wait for the device, whose work may depend on other ranks: `wait(done)` returns when `done()` holds, or
  /// throws, e.g. where a rank has failed. Empty: waits without regard to other ranks.
  using Wait = std::function<void(const std::function<bool()>& done)>;
  virtual void set_wait(Wait wait) = 0;

  /// Identifies the device among all devices of its host: "0000:3b:00.0".
  virtual std::string identity() const = 0;
};

}  // namespace unisono
