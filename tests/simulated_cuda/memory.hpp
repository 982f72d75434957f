#pragma once
// The memory of one simulated device: a range of addresses that faults unless the device executes something.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

namespace simulated {

/// Memory that is live, or that was.
struct Allocation {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

/// New and freed memory is 0xFF bytes, which are NaN as float and bf16. Behind each allocation lie at least 256 bytes
/// that nobody may write. Addresses are used again only when much was freed since.
class DeviceMemory {
 public:
  /// \param capacity  bytes that can be live; they are committed when they are allocated
  explicit DeviceMemory(std::size_t capacity);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // allocate, free and check_guards: the memory must be open.
  std::byte* allocate(std::size_t bytes);  ///< 256-byte aligned; nullptr if less is free
  bool free(void* pointer);                ///< false if it is no live allocation's begin
  void check_guards() const;               ///< aborts if somebody wrote behind an allocation

  void open();   ///< may be read and written from now on
  void close();  ///< faults from now on

  bool inside(const void* pointer) const;
  /// The live allocation that holds the address or ends there.
  std::optional<Allocation> find(const void* pointer) const;
  /// Whether all these bytes are of one live allocation.
  bool holds(const void* pointer, std::size_t bytes) const;

  std::size_t capacity() const { return capacity_; }
  std::size_t free_bytes() const { return capacity_ - used_; }
  std::size_t live_bytes() const;
  std::size_t live_allocations() const { return live_.size(); }

 private:
  struct Live {
    std::size_t bytes = 0;
    std::size_t reserved = 0;  // with what lies behind
  };
  using Offset = std::size_t;

  void give_back(Offset offset, std::size_t bytes);
  void check_guard(Offset offset, const Live& live) const;

  std::size_t capacity_;
  std::size_t range_;
  void* mapping_ = nullptr;
  std::byte* base_ = nullptr;
  std::size_t touched_ = 0;  // bytes from base_ that have been allocated once, in whole pages
  std::size_t used_ = 0;     // live bytes, rounded up to granules
  bool open_ = false;
  std::map<Offset, Live> live_;
  std::map<Offset, std::size_t> free_;
  std::deque<std::pair<Offset, std::size_t>> resting_;  // freed lately
  std::size_t resting_bytes_ = 0;
};

}  // namespace simulated
