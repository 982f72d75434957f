#include "digits/hand.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

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

}  // namespace unisono::data::digits
