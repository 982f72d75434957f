#pragma once

#include <cstdint>

#include "unisono/data/batch.hpp"

namespace unisono::data {

/// [first, last) of the numbers 0 … n−1, or of whatever they count.
using Range = ExampleRange;

/// Part i of n things cut into `parts`: [i·n/parts, (i+1)·n/parts), as equal as whole numbers allow.
inline Range part_of(std::int64_t n, std::int64_t i, std::int64_t parts) {
  // n·i may exceed 64 bits: with n = q·parts + r it is q·i + r·i/parts.
  const std::int64_t whole = n / parts, rest = n % parts;
  return {whole * i + rest * i / parts, whole * (i + 1) + rest * (i + 1) / parts};
}

}  // namespace unisono::data
