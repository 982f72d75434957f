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

/// Memory beside the rows of sets, in which kernels keep what they find out on the first visit (see LinearStep).
/// Threads may ask for it at the same time, each for a set of its own or all for one.
class RowMemory {
 public:
  /// For these rows: `count` zeros when asked for the first time. \return null where there are too many sets
  template <typename Kept>
  Kept* of(const SparseRows& rows, std::size_t count) {
    const std::uint32_t* const key = rows.columns.data();
    for (Piece& piece : pieces_) {
      const std::uint32_t* const known = piece.key.load(std::memory_order_acquire);
      if (known == key) return static_cast<Kept*>(piece.memory.get());
      if (known == nullptr) break;
    }
    return static_cast<Kept*>(allocate(key, (count + 1) * sizeof(Kept)));
  }

 private:
  static constexpr std::size_t kMostSets = 256;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Piece {
    std::atomic<const std::uint32_t*> key{nullptr};
    std::unique_ptr<void, Free> memory;
  };

  void* allocate(const std::uint32_t* key, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    for (Piece& piece : pieces_) {
      const std::uint32_t* const known = piece.key.load(std::memory_order_relaxed);
      if (known == key) return piece.memory.get();
      if (known != nullptr) continue;
      // Zeros that take memory only where they are written: by the threads that train on these rows.
      piece.memory.reset(std::calloc(bytes, 1));
      if (!piece.memory) throw std::bad_alloc();
      ask_for_huge_pages(piece.memory.get(), bytes);
      piece.key.store(key, std::memory_order_release);
      return piece.memory.get();
    }
    return nullptr;
  }

  std::mutex mutex_;
  std::array<Piece, kMostSets> pieces_;
};

}  // namespace unisono::models
