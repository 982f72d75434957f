#pragma once

#include <string>
#include <string_view>

#include "unisono/tensor/allocator.hpp"
#include "unisono/tensor/device.hpp"

namespace unisono::kernels {

/// What computes: a CPU's cores, or a GPU. Kernels of every kind run on one.
///
/// Parameters, activations and whatever else a kernel is given as a View or as doubles live in `memory()`, which on the
/// CPU is everybody's. Spans of integers, and values and targets that come from the data, are plain memory, which the
/// caller may change once `submit` has returned. A device may gather what it is asked for and work on it later, in
/// order: `memory().copy` waits for it. Kernels write nothing outside the views that they are given: the unused floats
/// between the blocks of θ and g stay as they are. Results do not depend on the number of threads.
class ComputeDevice {
 public:
  virtual ~ComputeDevice() = default;

  /// "CPU" or "CUDA": whose kernels these are.
  virtual std::string_view platform() const = 0;
  /// "CPU, AVX-512, 2 threads": for logs, and for what must be equal where runs are compared bit for bit.
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  /// Fused multiply-add flops per second of this device's cores, measured now (0.2 s).
  virtual double measure_peak_flops_per_second() = 0;
  /// Bytes per second of a triad over memory that no cache holds, measured now (0.2 s).
  virtual double measure_bandwidth_bytes_per_second() = 0;

  /// Where θ, g, optimizer state and activations must live.
  virtual Allocator& memory() { return plain_allocator(); }
  /// Plain memory from which `load` is fastest.
  virtual Allocator& batch_memory() { return plain_allocator(); }
  /// Floats of scratch memory that the kernels have allocated so far.
  virtual Index scratch_size() const = 0;

  /// What others must know of the device, to move what lies in its memory; null: the CPU.
  virtual Device* device() { return nullptr; }
  /// Starts all that was asked for, where that is gathered first; results do not depend on it.
  virtual void submit() {}
  /// Seconds that callers have waited so far for a device to do what it was asked for.
  virtual double waited_seconds() const { return 0; }
};

}  // namespace unisono::kernels
