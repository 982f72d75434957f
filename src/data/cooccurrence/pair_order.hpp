#pragma once

#include <cstdint>

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

}  // namespace unisono::data
