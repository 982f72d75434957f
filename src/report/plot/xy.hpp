#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plot/frame.hpp"

namespace unisono::report::plot {

enum class Mark { line, points, line_and_points };

/// Points, joined or not. Those with a value that an axis cannot show are left out, and interrupt the line.
struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};       ///< of the same length
  std::vector<double> low = {}, high = {};  ///< a band around the line, as long as x; empty: none
  Mark mark = Mark::line;
  std::vector<std::string> titles = {};    ///< shown where the mouse rests on a point; empty: the point's numbers
  std::optional<std::size_t> colour = {};  ///< of colour_of; nothing: the series' number
};

/// Curves, or a scatter plot.
struct XyPlot {
  Caption caption;
  Axis x, y;
  std::vector<Series> series;
  double width = 640, height = 260;  ///< without the legend
};

/// Long series are thinned to some points per pixel, which keep the extremes.
std::string svg_of(const XyPlot& plot);

/// At most about so many points of a series: of each part of it the first, the smallest and the largest.
Series thinned(const Series& series, std::size_t most);

}  // namespace unisono::report::plot
