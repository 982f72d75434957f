#pragma once

#include <array>
#include <vector>

#include "digits/glyphs.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data::digits {

/// A smooth random displacement of the plane: normal ones at the knots of a grid over the image, and in between what
/// cubic B-splines make of them. After Simard, Steinkraus & Platt, "Best practices for convolutional neural networks",
/// ICDAR 2003, who smooth a field of all pixels.
class Distortion {
 public:
  /// \param strength deviation of a knot's displacement, pixels
  Distortion(float side, float strength, RandomStream& random);
  Point operator()(Point p) const;

 private:
  static constexpr int kKnots = 7;
  float spacing_;
  std::array<std::array<Point, kKnots>, kKnots> knots_{};
};

/// How one digit is written: box to pixels.
class Hand {
 public:
  Hand(float side, RandomStream& random);

  /// \param at in the glyph's box \return pixels
  Point place(Point at) const;
  /// The stroke with each of its points where a hand sets it instead.
  Stroke tremble(const Stroke& stroke, RandomStream& random) const;

 private:
  float xx_, xy_, yx_, yy_;  ///< box to pixels: size, slant and turn
  Point middle_;             ///< where the box's middle comes to lie
  Distortion distortion_;
};

}  // namespace unisono::data::digits
