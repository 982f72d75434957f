#include "unisono/records/intervals.hpp"

#include <cmath>
#include <limits>

#include "student.hpp"

namespace unisono::records {
namespace {

Interval interval(std::span<const double> values, double ratio, double level) {
  const auto count = static_cast<double>(values.size());
  Interval found;
  for (const double value : values) found.mean += value / count;
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  found.low = found.high = std::numeric_limits<double>::quiet_NaN();
  if (values.size() < 2) return found;
  found.deviation = std::sqrt(squares / (count - 1));
  const double t = student_quantile((1 + level) / 2, count - 1);
  const double half = t * found.deviation * std::sqrt(1 / count + ratio);
  found.low = found.mean - half;
  found.high = found.mean + half;
  return found;
}

}  // namespace

Interval mean_interval(std::span<const double> values, double level) { return interval(values, 0, level); }

Interval corrected_interval(std::span<const double> values, double ratio, double level) {
  return interval(values, ratio, level);
}

}  // namespace unisono::records
