#pragma once

#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cuda {

/// A workspace in device memory, valid during one call; it grows to the largest size asked for. Its address must be
/// part of the signature of commands that use it, because it changes when the workspace grows.
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
