#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// A copy that was started.
class StartedCopy {
 public:
  virtual ~StartedCopy() = default;
  virtual bool done() = 0;
  virtual void wait() = 0;
};

/// A device as those must know it who move what lies in its memory: `comm`, which knows no kernels. Used by one thread
/// at a time.
class Device {
 public:
  virtual ~Device() = default;

  /// Whether this is memory of the device.
  virtual bool owns(const void* pointer) const = 0;
  virtual Allocator& memory() = 0;
  /// Plain memory that copies are fastest from and to; copies of other plain memory are made before they return.
  virtual Allocator& pinned() = 0;

  /// Starts to[…] = from[…], after all that the device was asked for before it; what it is asked for afterwards comes
  /// after an upload, but does not wait for a download. Plain memory must stay as it is until the copy is done.
  virtual std::unique_ptr<StartedCopy> start_download(const void* from, void* to, std::size_t bytes) = 0;
  virtual std::unique_ptr<StartedCopy> start_upload(const void* from, void* to, std::size_t bytes) = 0;
  /// Makes copies from and to plain memory of somebody else as fast as of pinned one, where that can be done, until it
  /// is released.
  virtual void pin(void* pointer, std::size_t bytes) = 0;
  virtual void release(void* pointer) noexcept = 0;

  /// Starts all that was asked for so far. \return the device's own queue (a cudaStream_t), in which others may start
  /// work behind that
  virtual void* submit() = 0;
  /// Waits for all that was asked for so far. \throws DeviceError
  virtual void synchronise() = 0;

  /// How this process waits for the device where others may hold it up: `wait` returns when what it is given holds, or
  /// throws. Empty: the device is waited for whatever happens.
  using Wait = std::function<void(const std::function<bool()>& done)>;
  virtual void set_wait(Wait wait) = 0;

  /// What tells this device from all others of its host, "0000:3b:00.0".
  virtual std::string identity() const = 0;
};

}  // namespace unisono
