#include "unisono/data/digits.hpp"

#include "digits/glyphs.hpp"
#include "digits/hand.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data {
namespace {

constexpr int kPointsPerPiece = 4;
constexpr float kThinnest = 0.75F, kThickest = 1.75F;  // half the pen's width, pixels
constexpr float kPressure = 0.2F;                      // relative change of the width along a stroke, at most
constexpr float kFaintest = 0.7F;                      // strength of the ink
constexpr float kNoise = 9.0F;                         // of 255, deviation

}  // namespace

Digit draw_digit(std::uint64_t seed, std::uint64_t index) {
  RandomStream random(seed, Purpose::digits, index);
  Digit digit;
  digit.label = static_cast<std::uint8_t>(random.below(10));
  const auto glyphs = digits::glyphs_of(digit.label);
  const digits::Glyph& glyph = glyphs[random.below(glyphs.size())];

  const digits::Hand hand(kDigitSide, random);
  const float radius = random.uniform(kThinnest, kThickest);
  digits::Sheet sheet;
  for (const digits::Stroke& stroke : glyph) {
    std::vector<digits::Point> line = digits::trace(hand.tremble(stroke, random), kPointsPerPiece);
    for (digits::Point& point : line) point = hand.place(point);
    sheet.draw(line, radius * random.uniform(1 - kPressure, 1 + kPressure),
               radius * random.uniform(1 - kPressure, 1 + kPressure));
  }
  const float strength = random.uniform(kFaintest, 1);
  sheet.finish(strength, kNoise, random, digit);
  return digit;
}

}  // namespace unisono::data
