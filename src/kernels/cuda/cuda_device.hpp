#pragma once

#include <mutex>
#include <string>

#include "cuda/pool.hpp"
#include "cuda/queue.hpp"
#include "unisono/kernels/cuda.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cuda {

/// Allocates the device's memory from a pool, in the order of a queue: work that is queued later finds it zeroed.
class DeviceMemory final : public Allocator {
 public:
  DeviceMemory(Pool& pool, Queue& queue) : pool_(pool), queue_(queue) {}
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer) noexcept override { pool_.deallocate(pointer); }
  void copy(View from, MutableView to) override;
  bool is_plain() const override { return false; }

 private:
  Pool& pool_;
  Queue& queue_;
};

/// Allocates pinned plain memory, which the copy engine can access, from a pool, since the driver is slow. Any thread
/// may use it. Memory that is deallocated must not be in use by a copy.
class PinnedMemory final : public Allocator {
 public:
  explicit PinnedMemory(int device);
  void* allocate(std::size_t bytes) override;
  void deallocate(void* pointer) noexcept override;

 private:
  std::mutex mutex_;
  Pool pool_;
};

/// One GPU: its memory, its queue, and copies outside of the queue.
class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number);

  bool owns(const void* pointer) const override;
  DeviceMemory& memory() override { return memory_; }
  PinnedMemory& pinned() override { return pinned_; }
  std::unique_ptr<StartedCopy> start_download(const void* from, void* to, std::size_t bytes) override;
  std::unique_ptr<StartedCopy> start_upload(const void* from, void* to, std::size_t bytes) override;
  void pin(void* pointer, std::size_t bytes) override;
  void unpin(void* pointer) noexcept override;
  void* submit() override;
  void synchronise() override { queue_.synchronise(); }
  void set_wait(Wait wait) override { queue_.set_wait(std::move(wait)); }
  std::string identity() const override { return identity_; }

  Queue& queue() { return queue_; }
  const Queue& queue() const { return queue_; }
  Fallbacks& fallbacks() { return fallbacks_; }
  const Fallbacks& fallbacks() const { return fallbacks_; }
  /// Sets how much of its memory is taken by examples that it keeps: part of the message when memory is out.
  void set_kept_bytes(std::size_t bytes);
  /// Bytes of the device's memory that are free.
  std::size_t free_bytes() const { return pool_.free_bytes(); }
  double waited_seconds() const { return queue_.waited_seconds(); }
  const std::string& name() const { return name_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  int number_;
  std::string name_, identity_;
  int multiprocessors_ = 1;
  Fallbacks fallbacks_;
  Pool pool_;
  Queue queue_;
  DeviceMemory memory_;
  PinnedMemory pinned_;
  Stream downloads_;
};

/// The PCI bus id of a device, which identifies it for all processes of the host, whatever number it has in each.
std::string identity_of(int device);

}  // namespace unisono::kernels::cuda
