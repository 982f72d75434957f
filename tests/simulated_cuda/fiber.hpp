#pragma once
// A stack of its own for each simulated thread that waits at a barrier.

#include <cstddef>

#include "simulated_cuda/sanitizers.hpp"

namespace simulated {

/// A function that can be left in the middle and entered again. Belongs to the host thread that made it.
class Fiber {
 public:
  /// \param body never returns; it calls leave() instead
  explicit Fiber(void (*body)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber from where it was left, until it leaves again.
  void enter();

  /// From within a fiber: back to the caller of enter().
  static void leave();

 private:
  static void start();

  void (*body_)();
  std::byte* mapping_;    // a page that faults, then the stack
  void* own_ = nullptr;   // stack pointer or context of the fiber while it is left
  void* host_ = nullptr;  // and of its host while it runs
  StackWatch watch_;
};

}  // namespace simulated
