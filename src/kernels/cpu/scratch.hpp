#pragma once

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

/// Memory of a kernel's own that outlives the call, so that a step allocates nothing once it has run.
class Scratch {
 public:
  /// At least so many floats, aligned to kAlignmentBytes, with any values; what an earlier call gave is lost.
  float* floats(Index count) {
    if (count > buffer_.size()) {
      buffer_ = Buffer();  // first, so that both are never held at once
      buffer_ = Buffer(count);
    }
    return buffer_.data();
  }
  /// As floats().
  double* doubles(Index count) { return reinterpret_cast<double*>(floats(2 * count)); }
  Index size() const { return buffer_.size(); }  ///< floats

 private:
  Buffer buffer_;
};

}  // namespace unisono::kernels::cpu
