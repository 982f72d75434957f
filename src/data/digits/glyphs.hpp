#pragma once

#include <span>
#include <vector>

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

}  // namespace unisono::data::digits
