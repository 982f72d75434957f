#pragma once

#include <array>
#include <vector>

#include "digits/glyphs.hpp"
#include "unisono/base/random.hpp"
#include "unisono/data/digits.hpp"

namespace unisono::data::digits {

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

}  // namespace unisono::data::digits
