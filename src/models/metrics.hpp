#pragma once

#include <cstdint>
#include <vector>

#include "unisono/models/model.hpp"

namespace unisono::models {

/// part / whole; 0 if whole is 0
inline double ratio(double part, std::int64_t whole) { return whole == 0 ? 0 : part / static_cast<double>(whole); }

/// Adds R² = 1 − Σ(y − t)² / Σ(t − mean t)², over all outputs together. There is none if all targets are equal, or if
/// the sums of targets were not computed.
inline void add_r2(const kernels::LossSums& sums, std::vector<Metric>& metrics) {
  const double spread = sums.target_squared_sum - ratio(sums.target_sum * sums.target_sum, sums.values);
  if (spread > 0) metrics.push_back(metric_of("r2", 1 - sums.squared_error / spread));
}

}  // namespace unisono::models
