#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"

// Fast random draws for word2vec.

namespace unisono::models {

/// A cheap random generator: 64-bit multiplicative congruential, seeded by a RandomStream.
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
  /// A number in [0, n), uniform up to a bias of n / 2³².
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((static_cast<std::uint64_t>(bits()) * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

/// The alias method: draws i with probability proportional to weights[i], in constant time.
///   Walker, ACM Trans. Math. Softw. 3(3), 1977; tables as in Vose, IEEE Trans. Softw. Eng. 17(9), 1991.
class AliasTable {
 public:
  AliasTable() = default;
  explicit AliasTable(std::span<const double> weights);

  std::int32_t draw(FastRandom& random) const {
    const std::uint32_t own = random.below(static_cast<std::uint32_t>(slots_.size()));
    const Slot& slot = slots_[own];
    // Without a branch, which the CPU could not predict: all bits are set where the slot's own number is drawn.
    const std::uint32_t chosen = 0U - static_cast<std::uint32_t>(random.bits() < slot.own);
    return static_cast<std::int32_t>((own & chosen) | (static_cast<std::uint32_t>(slot.other) & ~chosen));
  }

 private:
  struct Slot {
    std::uint32_t own = 0;  ///< threshold, of 2³²: below it the slot's own number is drawn, else `other`
    std::int32_t other = 0;
  };
  std::vector<Slot> slots_;
};

}  // namespace unisono::models
