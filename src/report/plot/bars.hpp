#pragma once

#include <string>
#include <vector>

#include "plot/frame.hpp"

namespace unisono::report::plot {

struct BarSeries {
  std::string name;
  std::vector<double> values;  ///< [rows] at least 0
};

/// Horizontal bars, a row each. Several series of a row follow each other in one bar.
struct BarPlot {
  Caption caption;
  Axis value;
  std::vector<std::string> rows;
  std::vector<BarSeries> series;
  double width = 640;
};
std::string svg_of(const BarPlot& plot);

/// A value with an interval, such as a mean with its confidence interval.
struct Interval {
  std::string row;
  double value = 0, low = 0, high = 0;
  std::size_t colour = 0;  ///< of colour_of
  std::string title = {};  ///< shown where the mouse rests; empty: the numbers
};

/// A dot with a line from low to high in each row, and a shaded margin behind them.
struct IntervalPlot {
  Caption caption;
  Axis value;
  std::vector<Interval> intervals;
  std::optional<Range> margin = {};      ///< shaded
  std::optional<double> reference = {};  ///< a vertical line
  std::vector<Key> keys = {};
  double width = 640;
};
std::string svg_of(const IntervalPlot& plot);

/// What a row of a timeline did from `start` to `end`.
struct TimeBlock {
  std::size_t row = 0;
  double start = 0, end = 0;
  std::size_t colour = 0;  ///< number of a key
  std::string text = {};   ///< inside, where there is room
  std::string title = {};  ///< shown where the mouse rests
};

/// Blocks along horizontal time (a Gantt chart): who did what when.
struct Timeline {
  Caption caption;
  Axis time;
  std::vector<std::string> rows;
  std::vector<std::string> kinds;  ///< of blocks: the legend
  std::vector<TimeBlock> blocks;
  double width = 800;
};
std::string svg_of(const Timeline& timeline);

}  // namespace unisono::report::plot
