#pragma once

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>

#include "unisono/tensor/huge_pages.hpp"
#include "unisono/tensor/sparse.hpp"

namespace unisono::models {

/// Memory beside the values of sets, in which kernels keep the spread of each value's feature (see LinearStep). Threads
/// may ask for it at the same time, each for a set of its own or all for one.
class ValueSpreads {
 public:
  /// For these rows; zeros when asked for the first time.
  float* of(const SparseRows& rows) {
    const std::uint32_t* const key = rows.columns.data();
    for (Kept& kept : kept_) {
      const std::uint32_t* const known = kept.key.load(std::memory_order_acquire);
      if (known == key) return kept.memory.get();
      if (known == nullptr) break;
    }
    return allocate(rows);
  }

 private:
  static constexpr std::size_t kMostSets = 256;
  struct Free {
    void operator()(float* memory) const { std::free(memory); }
  };
  struct Kept {
    std::atomic<const std::uint32_t*> key{nullptr};
    std::unique_ptr<float, Free> memory;
  };

  /// \return null where there are too many sets
  float* allocate(const SparseRows& rows) {
    const std::lock_guard lock(mutex_);
    for (Kept& kept : kept_) {
      const std::uint32_t* const known = kept.key.load(std::memory_order_relaxed);
      if (known == rows.columns.data()) return kept.memory.get();
      if (known != nullptr) continue;
      // Zeros that take memory only where they are written: by the threads that train on these rows.
      const std::size_t bytes = (rows.columns.size() + 1) * sizeof(float);
      kept.memory.reset(static_cast<float*>(std::calloc(bytes, 1)));
      if (!kept.memory) throw std::bad_alloc();
      ask_for_huge_pages(kept.memory.get(), bytes);
      kept.key.store(rows.columns.data(), std::memory_order_release);
      return kept.memory.get();
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::array<Kept, kMostSets> kept_;
};

}  // namespace unisono::models
