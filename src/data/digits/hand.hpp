#pragma once

#include <array>
#include <vector>

#include "digits/glyphs.hpp"
#include "unisono/base/random.hpp"

namespace unisono::data::digits {

/// A smooth random displacement of the plane (elastic distortion): normally distributed at the knots of a grid over the
/// image, with cubic B-splines in between. After Simard, Steinkraus & Platt, "Best practices for convolutional neural
/// networks", ICDAR 2003, who smooth random displacements of all pixels.
class Distortion {
 public:
  /// \param side of the image, pixels \param strength standard deviation of a knot's displacement, pixels
  Distortion(float side, float strength, RandomStream& random);
  Point operator()(Point p) const;

 private:
  static constexpr int kKnots = 7;
  float spacing_;
  std::array<std::array<Point, kKnots>, kKnots> knots_{};
};

/// How one digit is written: maps the glyph's box to pixels.
class Hand {
 public:
  Hand(float side, RandomStream& random);

  /// \param at in the glyph's box \return pixels
  Point place(Point at) const;
  /// The stroke with randomly displaced points, as by an unsteady hand.
  Stroke tremble(const Stroke& stroke, RandomStream& random) const;

 private:
  float xx_, xy_, yx_, yy_;  ///< box to pixels: size, slant and turn
  Point middle_;             ///< where the box's middle is mapped to, pixels
  Distortion distortion_;
};

}  // namespace unisono::data::digits
