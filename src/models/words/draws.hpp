#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"

// What word2vec draws at random, fast.

namespace unisono::models {

/// Many random numbers for little: a 64-bit multiplicative generator, started at a place that a RandomStream gives.
///   Steele & Vigna, "Computationally easy, spectrally good multipliers", Softw. Pract. Exp. 52(2), 2022; the upper
///   bits are used.
class FastRandom {
 public:
  explicit FastRandom(RandomStream& start)
      : state_((static_cast<std::uint64_t>(start.bits()) << 32 | start.bits()) | 1U) {}

  std::uint32_t bits() {
    state_ = state_ * 0xF1357AEA2E62A9C5ULL;
    return static_cast<std::uint32_t>(state_ >> 32);
  }
  /// In [0, n); off uniform by n / 2³².
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits()) * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// Draws i with a given probability, in constant time.
///   Walker, ACM Trans. Math. Softw. 3(3), 1977; tables as in Vose, IEEE Trans. Softw. Eng. 17(9), 1991.
class AliasTable {
 public:
  AliasTable() = default;
  explicit AliasTable(std::span<const double> weights);

  std::int32_t draw(FastRandom& random) const {
    const Slot& slot = slots_[random.below(static_cast<std::uint32_t>(slots_.size()))];
    return random.bits() < slot.own ? static_cast<std::int32_t>(&slot - slots_.data()) : slot.other;
  }

 private:
  struct Slot {
    std::uint32_t own = 0;  ///< the slot's own number is drawn below this, of 2³²
    std::int32_t other = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace unisono::models
