#pragma once

#include <string>
#include <vector>

#include "history.hpp"
#include "page.hpp"
#include "plot/xy.hpp"

namespace unisono::report {

/// A curve over epochs, or over steps where it is not known how many an epoch has.
plot::Series series_of(const RunHistory& run, const std::string& curve, const std::string& name);
/// The label of their x axis.
std::string epoch_label(const RunHistory& run);
/// A y axis for such curves: logarithmic where all values are positive and far apart.
plot::Axis axis_for(const std::vector<plot::Series>& series);
/// A plot of such curves; its y axis is logarithmic where all values are positive and far apart.
Drawing curves_drawing(const std::string& title, const std::string& x_label, std::vector<plot::Series> series);

/// A curve of what a strategy counted.
struct CounterCurve {
  std::string curve;  ///< its name in RunHistory::curves
  std::string words;  ///< "mean staleness"
};
/// Means of histograms, and single counters; numbers in other groups would be too many.
std::vector<CounterCurve> counter_curves(const RunHistory& run);

}  // namespace unisono::report
