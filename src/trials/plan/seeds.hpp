#pragma once

#include <cstdint>

#include "unisono/base/random.hpp"

namespace unisono::trials {

/// The seed of a trial's training: a function of the experiment's seed and the numbers alone. At least 0, below 2⁵³.
inline std::int64_t seed_of_trial(std::int64_t seed, std::int64_t trial, std::int64_t repeat) {
  RandomStream random(static_cast<std::uint64_t>(seed), Purpose::trials, static_cast<std::uint64_t>(trial),
                      static_cast<std::uint32_t>(repeat));
  const std::uint64_t high = random.bits() >> 11U, low = random.bits();
  return static_cast<std::int64_t>(high << 32U | low);
}

}  // namespace unisono::trials
