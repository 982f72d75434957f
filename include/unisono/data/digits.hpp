#pragma once

#include <array>
#include <cstdint>

#include "unisono/data/import.hpp"

namespace unisono::data {

inline constexpr int kDigitSide = 28;  ///< pixels

/// A grey image of a digit.
struct Digit {
  std::uint8_t label = 0;                                      ///< 0 to 9, uniform
  std::array<std::uint8_t, kDigitSide * kDigitSide> pixels{};  ///< row-major; 0: paper, 255: ink
};

/// Synthesizes handwritten digit number `index`: the strokes of one of several ways of writing it, with tremor, random
/// scale, slant, rotation, shift, elastic distortion, pen width and noise. A function of (seed, index) alone.
Digit draw_digit(std::uint64_t seed, std::uint64_t index);

/// The arguments of `unisono data digits`.
struct DigitsOptions {
  std::int64_t train = 60000, validation = 0, test = 10000;  ///< examples
  std::uint64_t seed = 1;
};

/// Writes a set of synthetic digits. Training examples have indices 0, 1, …; the other groups' indices start far away,
/// so that a group's first examples do not depend on the groups' sizes.
ImportSummary make_digits(const DigitsOptions& options, const ImportOutput& output);

}  // namespace unisono::data
