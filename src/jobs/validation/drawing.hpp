#pragma once

#include <cstdint>

#include "unisono/base/random.hpp"

// What random splitters share.

namespace unisono::jobs {

/// Random numbers of a repetition, and of a class in it.
inline RandomStream fold_stream(std::uint64_t seed, std::uint64_t repeat, std::uint32_t stratum = 0) {
  return {seed, Purpose::split, repeat, stratum + 1};  // 0 is data.validation_fraction's
}

/// How many of n examples shuffle_split holds out. \throws ConfigError if none are left to train on
std::int64_t held_out_rows(std::int64_t rows, double fraction);

}  // namespace unisono::jobs
