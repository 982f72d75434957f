#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "unisono/tensor/allocator.hpp"

namespace unisono::models {

/// Locks over the rows of θ, for the ways of training that lock-free training is measured against: one for all rows, or
/// stripes, each with every so manyth row.
class RowLocks {
 public:
  /// \param stripes 1: one lock for all
  explicit RowLocks(int stripes);

  /// Holds the locks of some rows.
  class Guard {
   public:
    Guard(Guard&& other) noexcept : locks_(std::exchange(other.locks_, nullptr)), stripes_(other.stripes_) {}
    Guard& operator=(Guard&&) = delete;
    ~Guard();

   private:
    friend class RowLocks;
    Guard(RowLocks& locks, std::span<const std::uint32_t> stripes) : locks_(&locks), stripes_(stripes) {}
    RowLocks* locks_;  ///< null: another guard holds them now
    std::span<const std::uint32_t> stripes_;
  };

  /// Collects rows; `lock` takes their locks in ascending order, so that threads never wait for each other in a circle.
  class Set {
   public:
    void clear() { stripes_.clear(); }
    void add(const RowLocks& locks, std::size_t space, Index row) { stripes_.push_back(locks.stripe_of(space, row)); }

   private:
    friend class RowLocks;
    std::vector<std::uint32_t> stripes_;
  };

  /// \param rows must outlive the guard, unchanged
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
