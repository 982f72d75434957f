#pragma once

#include <string>
#include <vector>

#include "plot/scale.hpp"
#include "unisono/base/svg.hpp"

namespace unisono::report::plot {

/// What a plot shows, for those who read it and those who cannot see it.
struct Caption {
  std::string title;
  std::string description = {};  ///< a sentence or two
};

using Box = SvgDrawing::Box;
using Point = SvgDrawing::Point;
using Anchor = SvgDrawing::Anchor;

inline constexpr double kFontSize = 12;
/// About how many pixels a text is wide.
double width_of(const std::string& text, double size = kFontSize);

/// An entry of a legend.
struct Key {
  std::string name;
  std::string colour;
  const char* dashes = "";
  bool is_line = false;
};

/// The height of a legend that is as wide as a plot.
double legend_height(const std::vector<Key>& keys, double width);
/// Draws it, with its upper left corner there.
void draw_legend(SvgDrawing& drawing, Point corner, double width, const std::vector<Key>& keys);

/// Draws an axis with ticks, lines across `area`, and its label, below or left of it. Programs find its range in
/// data-minimum and data-maximum of its group, whose classes are "axis x" and "axis y".
void draw_x_axis(SvgDrawing& drawing, const Box& area, const Scale& scale, const std::string& label);
void draw_y_axis(SvgDrawing& drawing, const Box& area, const Scale& scale, const std::string& label);
/// The room that the y axis needs left of the area.
double room_left_of(const Scale& scale, const std::string& label);
/// The room that the x axis needs below it.
double room_below(const std::string& label);

}  // namespace unisono::report::plot
