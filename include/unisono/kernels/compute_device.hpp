#pragma once

#include <string>
#include <string_view>

#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/device.hpp"

namespace unisono::kernels {

/// A device that kernels run on: the cores of a CPU, or a GPU.
///
/// Parameters, activations and all other arguments that are Views or spans of doubles live in `memory()`, which on the
/// CPU is plain memory. Spans of integers, and values and targets that come from the data, are plain memory; the caller
/// may change them once `submit` has returned. A device may queue kernels and run them later, in order; `memory().copy`
/// waits for them. Kernels write nothing outside the views that they are given: the unused floats between the blocks of
/// θ and g stay as they are. Results do not depend on the number of threads.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  /// "CPU" or "CUDA".
  virtual std::string_view platform() const = 0;
  /// "CPU, AVX-512, 2 threads": for logs and checkpoints. Only runs with equal descriptions can be equal bit for bit.
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  /// Fused multiply-add flops per second of this device's cores, measured now (0.2 s).
  virtual double measure_peak_flops_per_second() = 0;
  /// Bytes per second of a triad over memory that no cache holds, measured now (0.2 s).
  virtual double measure_bandwidth_bytes_per_second() = 0;

  /// Where θ, g, optimizer state and activations must live.
  virtual Allocator& memory() { return plain_allocator(); }
  /// Plain memory from which Activations::load is fastest.
  virtual Allocator& batch_memory() { return plain_allocator(); }
  /// Floats of scratch memory that the kernels have allocated so far.
  virtual Index scratch_size() const = 0;

  /// The device as `comm` needs it to move data in its memory; null for the CPU.
  virtual Device* device() { return nullptr; }
  /// Starts all kernels that are queued; results do not depend on when it is called.
  virtual void submit() {}
  /// Seconds that callers have waited for the device so far.
  virtual double waited_seconds() const { return 0; }
};

}  // namespace unisono::kernels
