#pragma once

#include <array>
#include <cstdint>

#include "unisono/data/import.hpp"

namespace unisono::data {

inline constexpr int kDigitSide = 28;  ///< pixels

struct Digit {
  std::uint8_t label = 0;                                      ///< 0 to 9, uniform
  std::array<std::uint8_t, kDigitSide * kDigitSide> pixels{};  ///< row-major; 0: paper, 255: ink
};

/// Draws the digit of this number: strokes of one of several ways of writing it, with a trembling hand, stretched,
/// slanted, turned, moved and distorted, by a pen of some width, on noisy paper. A function of (seed, index) alone.
Digit draw_digit(std::uint64_t seed, std::uint64_t index);

struct DigitsOptions {
  std::int64_t train = 60000, validation = 0, test = 10000;  ///< examples
  std::uint64_t seed = 1;
};

/// Makes a set of digits. The training examples are digits 0, 1, …; those of the other groups are far from them, so
/// that each group's first examples do not depend on any group's size.
ImportSummary make_digits(const DigitsOptions& options, const ImportOutput& output);

}  // namespace unisono::data
