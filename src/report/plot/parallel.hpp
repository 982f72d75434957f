#pragma once

#include <string>
#include <vector>

#include "plot/frame.hpp"

namespace unisono::report::plot {

/// A line across all axes, for a trial of a search.
struct ParallelLine {
  std::vector<double> values;  ///< [axes]; NaN: the line passes this axis by
  double merit = 1;            ///< from 0 to 1: better lines are stronger, of another colour, and cover others
  std::string title = {};      ///< shown where the mouse rests
};

struct ParallelPlot {
  Caption caption;
  std::vector<Axis> axes;  ///< vertical ones
  std::vector<ParallelLine> lines;
  double width = 800, height = 280;
};
std::string svg_of(const ParallelPlot& plot);

}  // namespace unisono::report::plot
