#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace unisono::kernels {

/// The engine (one of cuDNN's implementations) that computes one pass of a convolution.
struct ConvolutionEngine {
  std::string pass = {};            ///< "forward", "data gradient", …
  std::string convolution = {};     ///< "16×32×32 → 16, 3×3, batch 128"
  std::int64_t engine = 0;          ///< cuDNN's number of it
  bool last_resort = false;         ///< cuDNN's heuristics had none: it is from the list that they fall back to
  bool compiled = false;            ///< at run time, when it was chosen, which takes most of a second
  std::size_t workspace_bytes = 0;  ///< of the GPU's memory
  std::int64_t times = 0;           ///< how often it was asked for
};

/// What a GPU was given since its backend was made. Numbers only grow.
struct DeviceWork {
  std::string software;               ///< "CUDA 13.0, driver for CUDA 13.1, cuBLASLt 13.1.0, cuDNN 9.19.0"
  std::int64_t launches = 0;          ///< kernels, copies and library calls that the host started one by one
  std::int64_t graph_launches = 0;    ///< recorded sequences (CUDA graphs), each started by one call
  std::int64_t graph_operations = 0;  ///< kernels, copies and fills in these
  std::int64_t refused_captures = 0;  ///< sequences that could not be recorded, and are started one by one
  std::int64_t products = 0;          ///< of dense layers, by cuBLASLt
  std::int64_t unfused_products =
      0;  ///< products of dense layers whose bias, ReLU or bias gradient took another kernel
  std::vector<ConvolutionEngine> convolutions;
  std::vector<std::string> fallbacks;  ///< what was refused, and what was done instead
};

/// A backend that knows what its device was given: that of a GPU. Found by a dynamic_cast of a Backend.
class DeviceRecord {
 public:
  virtual DeviceWork device_work() const = 0;
  /// \param say is called with one line when a library or the driver refuses something for the first time, so that work
  /// is done in a slower way; DeviceWork::fallbacks has all such lines
  virtual void say_fallbacks(std::function<void(const std::string&)> say) = 0;

 protected:
  ~DeviceRecord() = default;
};

}  // namespace unisono::kernels
