#pragma once

#include <optional>
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

/// A matrix as shaded cells with their numbers, where there is room for these.
struct MatrixPlot {
  Caption caption;
  std::string row_label, column_label;
  std::vector<std::string> rows, columns;  ///< their names
  std::vector<double> values;              ///< [rows, columns]
  std::vector<double> shades = {};         ///< [rows, columns] 0 to 1; empty: each value's part of the largest one
};
std::string svg_of(const MatrixPlot& plot);

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
