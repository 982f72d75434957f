#pragma once

#include <array>
#include <cstdint>

#include "unisono/base/random.hpp"

namespace unisono::data {

/// A random permutation of 0 … n−1 that is evaluated place by place, each in constant time and memory: ranks that need
/// a slice of an epoch's order compute just that.
///   A Feistel network of eight rounds on pairs (l, r) of [0, a)², a = ⌈√n⌉: (l, r) → (r, l + F(r) mod a). Where it
///   leads out of [0, n) it is applied again, until it does not: still a bijection of [0, n).
///   Black & Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002.
class KeyedPermutation {
 public:
  KeyedPermutation() = default;
  KeyedPermutation(std::uint64_t n, RandomStream random);

  /// The number at this place of the permutation. \pre place < n
  std::uint64_t operator()(std::uint64_t place) const;
  std::uint64_t size() const { return n_; }

 private:
  static constexpr int kRounds = 8;
  std::uint64_t n_ = 0, side_ = 1;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace unisono::data
