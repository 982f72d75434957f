#pragma once

#include <string>
#include <vector>

#include "report/plot/frame.hpp"

namespace unisono::experiment::plot {

/// A vertical axis of a plot of parallel coordinates.
struct ParallelAxis {
  std::string name;
  Spacing spacing = Spacing::linear;
  std::vector<std::string> choices = {};  ///< where values are numbers of these; empty: values are quantities
};

/// A line across all axes, for a trial of a search.
struct ParallelLine {
  std::vector<double> values;  ///< [axes]; NaN: the line passes this axis by
  double merit = 1;            ///< from 0 to 1: better lines are stronger, and cover others
  std::string title = {};      ///< shown where the mouse rests
};

struct ParallelPlot {
  Caption caption;
  std::vector<ParallelAxis> axes;
  std::vector<ParallelLine> lines;
  double width = 800, height = 280;
};
std::string svg_of(const ParallelPlot& plot);

}  // namespace unisono::experiment::plot
