#pragma once

#include <algorithm>
#include <vector>

namespace unisono {

/// The median of some values: the mean of the two in the middle where their number is even; 0 for no values.
inline double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

}  // namespace unisono
