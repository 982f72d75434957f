#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels {

/// A cache that the cores of a device have, or the memory behind all caches.
struct MemoryLevel {
  std::string name;            ///< "L1", "L2", "L3", "memory"
  double capacity = 0;         ///< bytes, of all threads of the device together; of memory infinite
  double read = 0, write = 0;  ///< bytes per second, of all threads together
};

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

  /// The kind of device: "CPU" or "CUDA".
  virtual std::string_view platform() const = 0;
  /// The device for logs and checkpoints: "CPU, AVX-512, 2 threads". Only runs with equal descriptions can be equal bit
  /// for bit.
  virtual std::string description() const = 0;
  virtual int threads() const = 0;
  /// Fused multiply-add flops per second of this device's cores, measured now (0.2 s).
  virtual double measure_peak_flops_per_second() = 0;
  /// Bytes per second of a triad over memory that no cache holds, measured now (0.2 s).
  virtual double measure_bandwidth_bytes_per_second() = 0;
  /// The levels of memory from the nearest to the farthest, measured now (up to a second). A device that does not tell
  /// them apart has one, with the bandwidth of the triad.
  virtual std::vector<MemoryLevel> measure_memory_levels();

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

/// The engine (one of cuDNN's implementations) that computes one pass of a convolution.
struct ConvolutionEngine {
  std::string pass = {};         ///< "forward", "data gradient", …
  std::string convolution = {};  ///< "16×32×32 → 16, 3×3, batch 128"
  std::int64_t engine = 0;       ///< cuDNN's number of the engine
  bool last_resort = false;      ///< whether cuDNN's heuristics had none, so that the engine is from its fallback list
  /// Whether the engine was compiled at run time, when it was chosen, which takes most of a second.
  bool compiled = false;
  std::size_t workspace_bytes = 0;  ///< bytes of the GPU's memory
  std::int64_t times = 0;           ///< how often the engine was asked for
};

/// What a GPU was given since its backend was made. Numbers only grow.
struct DeviceWork {
  std::string software;               ///< "CUDA 13.0, driver for CUDA 13.1, cuBLASLt 13.1.0, cuDNN 9.19.0"
  std::int64_t launches = 0;          ///< kernels, copies and library calls that the host started one by one
  std::int64_t graph_launches = 0;    ///< recorded sequences (CUDA graphs), each started by one call
  std::int64_t graph_operations = 0;  ///< kernels, copies and fills in recorded sequences
  std::int64_t refused_captures = 0;  ///< sequences that could not be recorded, and are started one by one
  std::int64_t products = 0;          ///< products of dense layers, by cuBLASLt
  std::int64_t unfused_products =
      0;  ///< products of dense layers whose bias, ReLU or bias gradient took another kernel
  std::vector<ConvolutionEngine> convolutions;
  std::vector<std::string> fallbacks;  ///< what was refused, and what was done instead
};

/// A backend that knows what its device was given; GPUs' backends do. Found by a dynamic_cast of a Backend.
class DeviceRecord {
 public:
  virtual DeviceWork device_work() const = 0;
  /// \param say is called with one line when a library or the driver refuses something for the first time, so that work
  /// is done in a slower way; DeviceWork::fallbacks has all such lines
  virtual void say_fallbacks(std::function<void(const std::string&)> say) = 0;

 protected:
  ~DeviceRecord() = default;
};

// Kernels that not every device has (DecodeKernels, which only the CPU has; tests/kernels/optional_test.cpp shows
// another). They form an interface of their own, in a header of their own, which names the layer or optimizer that
// needs them (kOwner). Backends that have them inherit it in addition to Backend:
//
//   class SoftsignKernels {
//    public:
//     static constexpr std::string_view kOwner = "layer 'softsign'";
//     virtual void softsign_forward(…) = 0;
//    protected:
//     ~SoftsignKernels() = default;
//   };
//
// Once all devices have them, they can move into LayerKernels or UpdateKernels.

/// Refuses to run what has no kernels on a device.
/// \throws ConfigError "layer 'softsign' has no CUDA kernel yet: …"
[[noreturn]] void refuse_missing_kernels(std::string_view owner, std::string_view platform);

/// The interface `Kernels` of a device, which may lack it. Layers ask for their kernels when the network is made
/// (Layer::require_kernels), optimizers when they themselves are made: before a run begins.
/// \param device Backend, or one of its interfaces that is a ComputeDevice
/// \throws ConfigError naming the owner and the device's platform where it lacks the kernels
template <typename Kernels, typename Of>
auto& kernels_of(Of& device) {
  using Found = std::conditional_t<std::is_const_v<Of>, const Kernels, Kernels>;
  if (auto* const found = dynamic_cast<Found*>(&device)) return *found;
  refuse_missing_kernels(Kernels::kOwner, device.platform());
}

}  // namespace unisono::kernels
