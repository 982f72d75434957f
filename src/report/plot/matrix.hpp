#pragma once

#include <string>
#include <vector>

#include "plot/frame.hpp"

namespace unisono::report::plot {

/// A matrix as shaded cells with their numbers, where there is room for these.
struct MatrixPlot {
  Caption caption;
  std::string row_label, column_label;
  std::vector<std::string> rows, columns;  ///< their names
  std::vector<double> values;              ///< [rows, columns]
  std::vector<double> shades = {};         ///< [rows, columns] 0 to 1; empty: each value's part of the largest one
};
std::string svg_of(const MatrixPlot& plot);

}  // namespace unisono::report::plot
