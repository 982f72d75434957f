#pragma once

#include <cmath>

namespace unisono {

/// A number above 0, rounded to so many significant digits: for what was measured, and is not more exact.
inline double rounded(double value, int digits) {
  if (value <= 0) return value;
  const double unit = std::pow(10, std::floor(std::log10(value)) + 1 - digits);
  return std::round(value / unit) * unit;
}

}  // namespace unisono
