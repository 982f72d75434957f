#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// An asynchronous copy, under way or done.
class StartedCopy {
 public:
  virtual ~StartedCopy() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;
};

/// What `comm` needs of a GPU: its memory, copies between that and plain memory, and its stream; no kernels. Used by
/// one thread at a time.
class Device {
 public:
  virtual ~Device() = default;

  /// Whether this is memory of the device.
  virtual bool owns(const void* pointer) const = 0;
  virtual Allocator& memory() = 0;
  /// Pinned plain memory, which copies are fastest from and to. Copies from and to other plain memory are synchronous.
  virtual Allocator& pinned() = 0;

  /// Starts to[…] = from[…]. The copy begins after all work that was queued before. Work that is queued later waits for
  /// an upload, but not for a download. Plain memory must not change until the copy is done.
  virtual std::unique_ptr<StartedCopy> start_download(const void* from, void* to, std::size_t bytes) = 0;
  virtual std::unique_ptr<StartedCopy> start_upload(const void* from, void* to, std::size_t bytes) = 0;
  /// Pins plain memory that was allocated elsewhere, until `release`. Where that fails, copies from and to it are
  /// slower.
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

  /// Identifies the device among all of its host: "0000:3b:00.0".
  virtual std::string identity() const = 0;
};

}  // namespace unisono
