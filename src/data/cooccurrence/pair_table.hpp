#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace unisono::data {

/// The weight of a pair of words so far, in units that the counter chose: sums of integers are the same in any order.
struct PairSum {
  std::uint64_t place = 0;   ///< of the pair in PairOrder
  std::uint64_t weight = 0;  ///< 0: an empty slot
};

/// Sums of weights by place: a hash table with open addressing and linear probing in which a place's slot is in
/// proportion to it. So the slots are sorted but for collisions: to grow, and to give out what was counted in order,
/// takes one pass.
class PairTable {
 public:
  /// \param memory_bytes that it may take at any time, at least 1 MiB
  explicit PairTable(std::uint64_t memory_bytes);

  /// False where memory is full: take what is there, clear, and add again.
  bool add(std::uint64_t place, std::uint64_t weight);
  /// Has the place's slot on its way from memory to the cache.
  void prefetch(std::uint64_t place) const { __builtin_prefetch(&slots_[slot_of(place)], 1); }

  /// All sums, ascending by place. The table must be cleared before it is added to again.
  std::span<const PairSum> sort();
  void clear();
  /// Gives the memory back, and is of no more use.
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
  std::vector<PairSum> slots_;  ///< [capacity + a tail], so that probing need not come back to the beginning
};

}  // namespace unisono::data
