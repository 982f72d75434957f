#include "unisono/data/import.hpp"

#include <algorithm>
#include <vector>

#include "digits/hand.hpp"
#include "import/set_writer.hpp"
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

namespace {

constexpr std::int64_t kDigitsAtATime = 4096;
constexpr std::uint64_t kFirstOfValidation = std::uint64_t{1} << 40, kFirstOfTest = std::uint64_t{1} << 41;

void write_digits(SetWriter& writer, const std::string& group, std::int64_t count, std::uint64_t seed,
                  std::uint64_t first) {
  if (count == 0) return;
  writer.create_features<std::uint8_t>(group, count, {kDigitSide, kDigitSide});
  std::vector<std::uint8_t> labels(static_cast<std::size_t>(count)), pixels;
  for (std::int64_t begin = 0; begin < count; begin += kDigitsAtATime) {
    const std::int64_t end = std::min(begin + kDigitsAtATime, count);
    pixels.clear();
    for (std::int64_t i = begin; i < end; ++i) {
      const Digit digit = draw_digit(seed, first + static_cast<std::uint64_t>(i));
      labels[static_cast<std::size_t>(i)] = digit.label;
      pixels.insert(pixels.end(), digit.pixels.begin(), digit.pixels.end());
    }
    writer.write_features(group, begin, end - begin, pixels.data());
  }
  writer.scale_to_one(group);
  writer.file().write(group + "/labels", labels);
}

}  // namespace

ImportSummary make_digits(const DigitsOptions& options, const ImportOutput& output) {
  SetWriter writer(output);
  write_digits(writer, "train", options.train, options.seed, 0);
  write_digits(writer, "validation", options.validation, options.seed, kFirstOfValidation);
  write_digits(writer, "test", options.test, options.seed, kFirstOfTest);
  writer.file().write_attribute("", "classes", std::int64_t{10});
  writer.finish();
  ImportSummary summary;
  summary.path = output.path;
  summary.train = options.train;
  summary.validation = options.validation;
  summary.test = options.test;
  summary.shape = {kDigitSide, kDigitSide};
  summary.classes = 10;
  return summary;
}

}  // namespace unisono::data
