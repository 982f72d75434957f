#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "import/spill.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {

/// Two words, by number.
struct WordPair {
  std::uint32_t row = 0, column = 0;
  bool operator==(const WordPair&) const = default;
};

/// A random order of all pairs of words: a bijection between pairs and places 0 … 2⁶⁴ − 1, so that sorting by place
/// shuffles.
///   The finaliser of SplitMix64 (Steele, Lea & Flood, OOPSLA 2014) on the pair's bits and a key: xor-shifts and
///   products with odd numbers, all of which are invertible.
class PairOrder {
 public:
  explicit PairOrder(std::uint64_t seed) : key_(stream_key(seed, Purpose::order)) {}

  std::uint64_t place_of(WordPair pair) const {
    std::uint64_t z = (std::uint64_t{pair.row} << 32 | pair.column) ^ key_;
    z = (z ^ z >> 30) * kFirst;
    z = (z ^ z >> 27) * kSecond;
    return z ^ z >> 31;
  }
  WordPair pair_at(std::uint64_t place) const {
    std::uint64_t z = (place ^ place >> 31 ^ place >> 62) * inverse(kSecond);
    z = (z ^ z >> 27 ^ z >> 54) * inverse(kFirst);
    z = (z ^ z >> 30 ^ z >> 60) ^ key_;
    return {static_cast<std::uint32_t>(z >> 32), static_cast<std::uint32_t>(z)};
  }

 private:
  static constexpr std::uint64_t kFirst = 0xBF58476D1CE4E5B9, kSecond = 0x94D049BB133111EB;

  /// The inverse of an odd number modulo 2⁶⁴: Newton's iteration doubles the number of correct bits, beginning with the
  /// three of n itself.
  static constexpr std::uint64_t inverse(std::uint64_t n) {
    std::uint64_t x = n;
    for (int i = 0; i < 5; ++i) x *= 2 - n * x;
    return x;
  }

  std::uint64_t key_;
};

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

/// Sorted runs of sums in a file, which are merged when they are read.
class PairRuns {
 public:
  /// \param beside path of the output: the file is made next to it
  explicit PairRuns(const std::string& beside) : file_(beside) {}

  /// \param sums ascending by place, each place once
  void add(std::span<const PairSum> sums);
  std::int64_t size() const { return static_cast<std::int64_t>(runs_.size()); }

  /// Visits the merged sums of all runs, ascending by place, each place once. \param memory_bytes for all buffers; each
  /// run has at least 4 KiB
  void for_each(std::uint64_t memory_bytes, const std::function<void(const PairSum&)>& visit);

 private:
  SpillFile file_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> runs_;  ///< where each begins and ends in the file
};

}  // namespace unisono::data
