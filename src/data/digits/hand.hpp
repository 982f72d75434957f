#pragma once

#include <array>
#include <span>
#include <vector>

#include "unisono/base/random.hpp"
#include "unisono/data/import.hpp"

namespace unisono::data::digits {

struct Point {
  float x = 0, y = 0;
};

/// A line drawn without lifting the pen, as points that a smooth curve runs through. A point that occurs twice in a row
/// is a corner.
using Stroke = std::vector<Point>;

/// A way of writing a digit: strokes in a box [0, 1]², y pointing down.
using Glyph = std::vector<Stroke>;

/// The ways of writing a digit, 0 to 9.
std::span<const Glyph> glyphs_of(int digit);

/// Points along a stroke, dense enough to be joined by straight lines: a uniform Catmull–Rom spline
/// (Catmull & Rom, "A class of local interpolating splines", 1974).
std::vector<Point> trace(const Stroke& stroke, int points_per_piece);

/// Draws lines by distance: a pixel is inked if it is nearer to a line than half the pen's width, with a transition
/// over one pixel at the edge (anti-aliasing).
class Sheet {
 public:
  /// A line through points in pixels. \param start, end half the width of the pen there, pixels
  void draw(const std::vector<Point>& line, float start, float end);
  /// Turns the ink into a digit's pixels: ink of this strength on noisy paper.
  void finish(float strength, float noise, RandomStream& random, Digit& digit) const;

 private:
  void draw_segment(Point from, Point to, float radius);
  std::array<float, kDigitSide * kDigitSide> ink_{};  ///< 0 to 1
};

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
