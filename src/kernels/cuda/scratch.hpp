#pragma once

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cuda {

/// Device memory for the length of a call, as large as the largest call wanted. Its address must be part of the
/// signature of the commands that use it, for it changes when it grows.
class Scratch {
 public:
  explicit Scratch(Allocator& memory) : memory_(&memory) {}

  template <typename T>
  T* take(Index count) {
    const Index floats =
        static_cast<Index>((static_cast<std::size_t>(count) * sizeof(T) + sizeof(float) - 1) / sizeof(float));
    if (buffer_.size() < floats) {
      buffer_ = Buffer();  // first, so that both are never held at once
      buffer_ = Buffer(floats, *memory_);
    }
    return reinterpret_cast<T*>(buffer_.data());
  }
  Index size() const { return buffer_.size(); }

 private:
  Allocator* memory_;
  Buffer buffer_;
};

}  // namespace unisono::kernels::cuda
