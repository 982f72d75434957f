#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <vector>

#include "digits/hand.hpp"
#include "import/set_writer.hpp"
#include "unisono/base/random.hpp"
#include "unisono/data/import.hpp"

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

namespace unisono::data::digits {
namespace {

/// Roughly standard normal out of 32 bits: the sum of four uniform bytes, whose deviation is √(4 (256² − 1) / 12).
float rough_normal(std::uint32_t bits) {
  const std::uint32_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
  return (static_cast<float>(sum) - 510.0F) / 147.8F;
}

int clamp_pixel(float at) { return std::clamp(static_cast<int>(std::floor(at)), 0, kDigitSide - 1); }

// Chosen so that a linear model is right on about 90 % of the digits, and a small convolutional one on more than 98 %.
constexpr float kHeight = 19.0F;  // pixels, before scaling
constexpr float kScaleLow = 0.78F, kScaleHigh = 1.08F;
constexpr float kAspectLow = 0.62F, kAspectHigh = 1.02F;  // width over height
constexpr float kTurn = 15.0F;                            // degrees, either way
constexpr float kSlant = 0.32F;                           // dx/dy, either way
constexpr float kShift = 1.8F;                            // pixels, either way
constexpr float kDistortion = 1.5F;                       // pixels, deviation
constexpr float kTremble = 0.035F;                        // of the box, deviation

/// The four weights of a uniform cubic B-spline.
std::array<float, 4> spline_weights(float t) {
  const float s = 1 - t;
  return {s * s * s / 6, (4 - 6 * t * t + 3 * t * t * t) / 6, (4 - 6 * s * s + 3 * s * s * s) / 6, t * t * t / 6};
}

}  // namespace

void Sheet::draw_segment(Point from, Point to, float radius) {
  const float reach = radius + 1, dx = to.x - from.x, dy = to.y - from.y;
  const float squared = std::max(dx * dx + dy * dy, 1e-6F);
  const int x0 = clamp_pixel(std::min(from.x, to.x) - reach), x1 = clamp_pixel(std::max(from.x, to.x) + reach);
  const int y0 = clamp_pixel(std::min(from.y, to.y) - reach), y1 = clamp_pixel(std::max(from.y, to.y) + reach);
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) {
      const float px = static_cast<float>(x) + 0.5F - from.x, py = static_cast<float>(y) + 0.5F - from.y;
      const float along = std::clamp((px * dx + py * dy) / squared, 0.0F, 1.0F);
      const float ex = px - along * dx, ey = py - along * dy;
      const float inked = std::clamp(radius + 0.5F - std::sqrt(ex * ex + ey * ey), 0.0F, 1.0F);
      float& pixel = ink_[static_cast<std::size_t>(y * kDigitSide + x)];
      pixel = std::max(pixel, inked);
    }
  }
}

void Sheet::draw(const std::vector<Point>& line, float start, float end) {
  for (std::size_t i = 0; i + 1 < line.size(); ++i) {
    const float done = static_cast<float>(i) / static_cast<float>(line.size());
    draw_segment(line[i], line[i + 1], start + (end - start) * done);
  }
}

void Sheet::finish(float strength, float noise, RandomStream& random, Digit& digit) const {
  for (std::size_t i = 0; i < ink_.size(); ++i) {
    const float value = 255 * strength * ink_[i] + noise * rough_normal(random.bits());
    digit.pixels[i] = static_cast<std::uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F));
  }
}

Distortion::Distortion(float side, float strength, RandomStream& random) : spacing_(side / (kKnots - 3)) {
  for (auto& row : knots_) {
    for (Point& knot : row) {
      knot.x = strength * random.normal();
      knot.y = strength * random.normal();
    }
  }
}

Point Distortion::operator()(Point p) const {
  const auto cell = [&](float at) { return std::clamp(static_cast<int>(at / spacing_), 0, kKnots - 4); };
  const int column = cell(p.x), row = cell(p.y);
  const auto wx = spline_weights(std::clamp(p.x / spacing_ - static_cast<float>(column), 0.0F, 1.0F));
  const auto wy = spline_weights(std::clamp(p.y / spacing_ - static_cast<float>(row), 0.0F, 1.0F));
  Point moved = p;
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      const Point& knot = knots_[static_cast<std::size_t>(row) + i][static_cast<std::size_t>(column) + j];
      moved.x += wy[i] * wx[j] * knot.x;
      moved.y += wy[i] * wx[j] * knot.y;
    }
  }
  return moved;
}

Hand::Hand(float side, RandomStream& random) : xx_(0), xy_(0), yx_(0), yy_(0), distortion_(side, kDistortion, random) {
  const float height = kHeight * random.uniform(kScaleLow, kScaleHigh);
  const float width = height * random.uniform(kAspectLow, kAspectHigh);
  const float turn = random.uniform(-kTurn, kTurn) * std::numbers::pi_v<float> / 180;
  const float slant = random.uniform(-kSlant, kSlant);
  const float c = std::cos(turn), s = std::sin(turn);
  // Turn · slant · size: x' = c (w x − slant h y) − s h y, y' = s (w x − slant h y) + c h y.
  xx_ = c * width;
  xy_ = -(c * slant + s) * height;
  yx_ = s * width;
  yy_ = (c - s * slant) * height;
  middle_ = {side / 2 + random.uniform(-kShift, kShift), side / 2 + random.uniform(-kShift, kShift)};
}

Point Hand::place(Point at) const {
  const float x = at.x - 0.5F, y = at.y - 0.5F;
  return distortion_({middle_.x + xx_ * x + xy_ * y, middle_.y + yx_ * x + yy_ * y});
}

Stroke Hand::tremble(const Stroke& stroke, RandomStream& random) const {
  Stroke moved = stroke;
  for (std::size_t i = 0; i < moved.size(); ++i) {
    if (i > 0 && stroke[i].x == stroke[i - 1].x && stroke[i].y == stroke[i - 1].y) {
      moved[i] = moved[i - 1];  // a corner stays one
      continue;
    }
    moved[i].x += kTremble * random.normal();
    moved[i].y += kTremble * random.normal();
  }
  return moved;
}

namespace {

// clang-format off
const std::vector<Glyph> kZero = {
    {{{.50F, .00F}, {.22F, .14F}, {.08F, .50F}, {.22F, .86F}, {.50F, 1.0F}, {.78F, .86F}, {.92F, .50F}, {.78F, .14F},
    {.50F, .00F}}},
    {{{.52F, .02F}, {.32F, .18F}, {.24F, .50F}, {.32F, .82F}, {.52F, .98F}, {.70F, .82F}, {.76F, .50F}, {.68F, .16F},
    {.46F, .02F}}},
    {{{.66F, .06F}, {.34F, .06F}, {.10F, .36F}, {.12F, .74F}, {.42F, .98F}, {.76F, .84F}, {.90F, .46F}, {.76F, .12F},
    {.50F, .03F}, {.42F, .12F}}},
};
const std::vector<Glyph> kOne = {
    {{{.50F, .00F}, {.50F, 1.0F}}},
    {{{.60F, .00F}, {.50F, .50F}, {.42F, 1.0F}}},
    {{{.30F, .24F}, {.54F, .00F}, {.54F, .00F}, {.54F, .50F}, {.54F, 1.0F}}},
    {{{.32F, .20F}, {.52F, .00F}, {.52F, .00F}, {.52F, 1.0F}},
    {{.28F, 1.0F}, {.76F, 1.0F}}},
};
const std::vector<Glyph> kTwo = {
    {{{.12F, .24F}, {.30F, .03F}, {.62F, .00F}, {.82F, .20F}, {.70F, .48F}, {.40F, .75F}, {.10F, .98F}, {.10F, .98F},
    {.50F, .96F}, {.92F, .97F}}},
    {{{.16F, .18F}, {.40F, .00F}, {.72F, .06F}, {.78F, .32F}, {.56F, .64F}, {.26F, .94F}, {.08F, .92F}, {.16F, .78F},
    {.42F, .84F}, {.66F, .98F}, {.94F, .92F}}},
    {{{.14F, .10F}, {.46F, .00F}, {.76F, .10F}, {.78F, .34F}, {.14F, 1.0F}, {.14F, 1.0F}, {.88F, 1.0F}}},
};
const std::vector<Glyph> kThree = {
    {{{.15F, .14F}, {.45F, .00F}, {.78F, .14F}, {.74F, .36F}, {.40F, .47F}, {.40F, .47F}, {.78F, .56F}, {.86F, .78F},
    {.60F, .98F}, {.30F, .98F}, {.10F, .84F}}},
    {{{.14F, .03F}, {.80F, .03F}, {.80F, .03F}, {.44F, .40F}, {.44F, .40F}, {.78F, .50F}, {.86F, .74F}, {.64F, .97F},
    {.32F, .99F}, {.10F, .86F}}},
    {{{.20F, .06F}, {.58F, .00F}, {.76F, .18F}, {.60F, .38F}, {.42F, .46F}, {.70F, .56F}, {.80F, .78F}, {.56F, .98F},
    {.16F, .94F}}},
};
const std::vector<Glyph> kFour = {
    {{{.30F, .00F}, {.12F, .58F}, {.12F, .58F}, {.92F, .56F}},
    {{.68F, .12F}, {.66F, 1.0F}}},
    {{{.64F, .00F}, {.08F, .64F}, {.08F, .64F}, {.94F, .64F}},
    {{.64F, .00F}, {.64F, 1.0F}}},
    {{{.18F, .04F}, {.16F, .40F}, {.38F, .52F}, {.76F, .44F}},
    {{.82F, .00F}, {.74F, .50F}, {.70F, 1.0F}}},
};
const std::vector<Glyph> kFive = {
    {{{.84F, .02F}, {.26F, .02F}, {.26F, .02F}, {.20F, .44F}, {.20F, .44F}, {.52F, .36F}, {.84F, .52F}, {.85F, .78F},
    {.58F, .98F}, {.28F, .98F}, {.10F, .86F}}},
    {{{.84F, .05F}, {.46F, .03F}, {.28F, .12F}, {.26F, .38F}, {.56F, .44F}, {.82F, .64F}, {.70F, .92F}, {.40F, 1.0F},
    {.12F, .90F}}},
    {{{.22F, .04F}, {.20F, .42F}, {.56F, .38F}, {.84F, .60F}, {.74F, .92F}, {.40F, 1.0F}, {.12F, .88F}},
    {{.22F, .04F}, {.86F, .00F}}},
};
const std::vector<Glyph> kSix = {
    {{{.70F, .02F}, {.40F, .20F}, {.20F, .50F}, {.15F, .76F}, {.36F, .98F}, {.70F, .95F}, {.82F, .74F}, {.62F, .54F},
    {.32F, .60F}, {.17F, .78F}}},
    {{{.36F, .00F}, {.20F, .38F}, {.16F, .74F}, {.34F, .98F}, {.64F, .98F}, {.80F, .78F}, {.66F, .58F}, {.38F, .58F},
    {.18F, .76F}}},
    {{{.82F, .08F}, {.52F, .06F}, {.24F, .30F}, {.12F, .66F}, {.30F, .96F}, {.66F, .98F}, {.88F, .74F}, {.70F, .48F},
    {.36F, .50F}, {.14F, .72F}}},
};
const std::vector<Glyph> kSeven = {
    {{{.10F, .04F}, {.88F, .04F}, {.88F, .04F}, {.40F, 1.0F}}},
    {{{.10F, .05F}, {.88F, .03F}, {.88F, .03F}, {.58F, .48F}, {.44F, 1.0F}},
    {{.32F, .52F}, {.78F, .48F}}},
    {{{.12F, .20F}, {.14F, .05F}, {.14F, .05F}, {.86F, .04F}, {.86F, .04F}, {.62F, .44F}, {.46F, 1.0F}}},
};
const std::vector<Glyph> kEight = {
    {{{.50F, .47F}, {.22F, .28F}, {.32F, .05F}, {.60F, .00F}, {.78F, .18F}, {.62F, .40F}, {.35F, .55F}, {.14F, .78F},
    {.35F, .98F}, {.68F, .97F}, {.84F, .76F}, {.50F, .47F}}},
    {{{.50F, .00F}, {.28F, .10F}, {.26F, .34F}, {.50F, .46F}, {.74F, .34F}, {.72F, .10F}, {.50F, .00F}},
    {{.50F, .46F}, {.22F, .58F}, {.18F, .86F}, {.50F, 1.0F}, {.82F, .86F}, {.78F, .58F}, {.50F, .46F}}},
    {{{.78F, .12F}, {.50F, .00F}, {.24F, .16F}, {.40F, .42F}, {.72F, .62F}, {.76F, .88F}, {.46F, 1.0F}, {.20F, .84F},
    {.36F, .56F}, {.66F, .34F}, {.80F, .14F}}},
};
const std::vector<Glyph> kNine = {
    {{{.78F, .24F}, {.56F, .01F}, {.24F, .12F}, {.18F, .36F}, {.44F, .52F}, {.72F, .40F}, {.79F, .16F}, {.79F, .16F},
    {.76F, .58F}, {.72F, 1.0F}}},
    {{{.78F, .20F}, {.52F, .00F}, {.22F, .14F}, {.22F, .40F}, {.50F, .50F}, {.76F, .34F}, {.80F, .14F}, {.82F, .56F},
    {.66F, .92F}, {.32F, .96F}}},
    {{{.72F, .10F}, {.42F, .02F}, {.20F, .24F}, {.40F, .48F}, {.70F, .34F}, {.74F, .08F}, {.74F, .08F}, {.66F, .54F},
    {.50F, 1.0F}}},
};
// clang-format on

Point lerp_cubic(Point p0, Point p1, Point p2, Point p3, float t) {
  const auto mix = [t](float a, float b, float c, float d) {
    return b + 0.5F * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
  };
  return {mix(p0.x, p1.x, p2.x, p3.x), mix(p0.y, p1.y, p2.y, p3.y)};
}

bool same(Point a, Point b) { return a.x == b.x && a.y == b.y; }

}  // namespace

std::span<const Glyph> glyphs_of(int digit) {
  static const std::array<const std::vector<Glyph>*, 10> all = {&kZero, &kOne, &kTwo,   &kThree, &kFour,
                                                                &kFive, &kSix, &kSeven, &kEight, &kNine};
  return *all[static_cast<std::size_t>(digit)];
}

std::vector<Point> trace(const Stroke& stroke, int points_per_piece) {
  std::vector<Point> points{stroke.front()};
  for (std::size_t i = 0; i + 1 < stroke.size(); ++i) {
    const Point from = stroke[i], to = stroke[i + 1];
    if (same(from, to)) continue;
    // At an end or a corner the curve starts straight.
    const Point before = i == 0 || same(stroke[i - 1], from) ? from : stroke[i - 1];
    const Point after = i + 2 == stroke.size() || same(stroke[i + 2], to) ? to : stroke[i + 2];
    for (int k = 1; k <= points_per_piece; ++k) {
      points.push_back(
          lerp_cubic(before, from, to, after, static_cast<float>(k) / static_cast<float>(points_per_piece)));
    }
  }
  return points;
}

}  // namespace unisono::data::digits
