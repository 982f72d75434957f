#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::models {

/// Spin locks over the rows of θ, for comparison with lock-free training: one lock for all rows, or `stripes` locks, to
/// which the rows are assigned round-robin.
class RowLocks {
 public:
  /// \param stripes number of locks; 1: one for all rows
  explicit RowLocks(int stripes);

  /// Holds the locks of some rows until it is destroyed.
  class Guard {
   public:
    Guard(Guard&& other) noexcept : locks_(std::exchange(other.locks_, nullptr)), stripes_(other.stripes_) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard();

   private:
    friend class RowLocks;
    Guard(RowLocks& locks, std::span<const std::uint32_t> stripes) : locks_(&locks), stripes_(stripes) {}
    RowLocks* locks_;  ///< null: they were moved to another guard
    std::span<const std::uint32_t> stripes_;
  };

  /// A set of rows to lock. `lock` takes their locks in ascending order, which excludes deadlocks.
  class Set {
   public:
    void clear() { stripes_.clear(); }
    void add(const RowLocks& locks, std::size_t space, Index row) { stripes_.push_back(locks.stripe_of(space, row)); }

   private:
    friend class RowLocks;
    std::vector<std::uint32_t> stripes_;
  };

  /// Waits for the locks of these rows and takes them. \param rows must outlive the guard, unchanged
  [[nodiscard]] Guard lock(Set& rows);

 private:
  struct alignas(kAlignmentBytes) Lock {
    std::atomic<bool> taken{false};
  };
  std::uint32_t stripe_of(std::size_t space, Index row) const;
  void take(std::uint32_t stripe);

  std::uint32_t stripes_;
  std::unique_ptr<Lock[]> locks_;
};

}  // namespace unisono::models
