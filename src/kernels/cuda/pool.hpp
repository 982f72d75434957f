#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

namespace unisono::kernels::cuda {

/// Where a pool gets its memory.
struct RawMemory {
  std::function<void*(std::size_t bytes)> allocate;  ///< null where there is not so much; may throw another error
  std::function<void(void*)> release;
  std::function<std::size_t()> free_bytes;  ///< that could still be had
};

/// Keeps memory that was deallocated for later allocations of the same size: the driver is slow, and waits for all
/// work. Sizes are rounded up, to 512 bytes or to 2 MiB, so that near ones share memory.
class Pool {
 public:
  explicit Pool(RawMemory raw) : raw_(std::move(raw)) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// \throws DeviceError saying how much was asked for, how much is in use and how much is free
  void* allocate(std::size_t bytes);
  void deallocate(void* pointer) noexcept;
  /// Text about the memory in use, for the message when memory is out.
  void set_remark(std::string remark) { remark_ = std::move(remark); }

  /// The size to which `allocate` rounds up so many bytes.
  static std::size_t rounded(std::size_t bytes);
  std::size_t free_bytes() const { return raw_.free_bytes(); }
  std::size_t used_bytes() const { return used_bytes_; }
  std::size_t kept_bytes() const { return kept_bytes_; }

 private:
  void* take_kept(std::size_t& size);
  void release_kept();

  RawMemory raw_;
  std::string remark_;
  std::multimap<std::size_t, void*> kept_;        ///< by size
  std::unordered_map<void*, std::size_t> taken_;  ///< sizes, by address
  std::size_t used_bytes_ = 0, kept_bytes_ = 0;
};

}  // namespace unisono::kernels::cuda
