#include "digits/hand.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace unisono::data::digits {
namespace {

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
