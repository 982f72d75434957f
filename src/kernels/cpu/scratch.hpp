#pragma once

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cpu {

/// The workspace of a kernel. It is kept between calls, so that steps after the first one allocate nothing.
class Scratch {
 public:
  /// At least so many floats, aligned to kAlignmentBytes, with any values; memory from an earlier call becomes invalid.
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
