#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono::data {

/// The weight of a pair of words so far, in integer units of the caller's choice, so that sums do not depend on the
/// order.
struct PairSum {
  std::uint64_t place = 0;   ///< of the pair in PairOrder
  std::uint64_t weight = 0;  ///< 0: an empty slot
};

/// Sums of weights by place: a hash table with open addressing and linear probing, in which a place's slot is
/// proportional to the place. So the slots are sorted except for collisions, and growing or sorting takes one pass.
class PairTable {
 public:
  /// \param memory_bytes that it may take at any time, at least 1 MiB
  explicit PairTable(std::uint64_t memory_bytes);

  /// Returns false if memory is full: use `sort`, `clear`, and add again.
  bool add(std::uint64_t place, std::uint64_t weight);
  /// Prefetches the place's slot into the cache.
  void prefetch(std::uint64_t place) const { __builtin_prefetch(&slots_[slot_of(place)], 1); }

  /// All sums, ascending by place. The table must be cleared before it is added to again.
  std::span<const PairSum> sort();
  void clear();
  /// Frees the memory; the table cannot be used afterwards.
  void release() { slots_ = std::vector<PairSum>(); }

 private:
  /// ⌊place · capacity / 2⁶⁴⌋
  std::size_t slot_of(std::uint64_t place) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>((static_cast<Wide>(place) * capacity_) >> 64);
  }
  void resize(std::size_t capacity);
  bool grow();

  std::size_t most_slots_, capacity_ = 0, used_ = 0;
  std::vector<PairSum> slots_;  ///< [capacity + a tail], so that probing need not wrap around
};

}  // namespace unisono::data
