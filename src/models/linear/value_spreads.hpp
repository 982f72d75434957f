#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "unisono/tensor/sparse.hpp"

namespace unisono::models {

/// Memory beside the values of a set, in which kernels keep the spread of each value's feature (see LinearStep).
/// Threads may ask for it at the same time.
class ValueSpreads {
 public:
  /// For these rows; zeros when asked for the first time. Another set's are forgotten.
  float* of(const SparseRows& rows) {
    if (known_.load(std::memory_order_acquire) != rows.columns.data()) allocate(rows);
    return memory_.get();
  }

 private:
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  void allocate(const SparseRows& rows) {
    const std::lock_guard lock(mutex_);
    if (known_.load(std::memory_order_relaxed) == rows.columns.data()) return;
    // Zeros that take memory only where they are written: by the threads that train on these rows.
    memory_.reset(static_cast<float*>(std::calloc(rows.columns.size() + 1, sizeof(float))));
    if (!memory_) throw std::bad_alloc();
    known_.store(rows.columns.data(), std::memory_order_release);
  }

  std::mutex mutex_;
  std::atomic<const std::uint32_t*> known_{nullptr};
  std::unique_ptr<float, Free> memory_;
};

}  // namespace unisono::models
