#pragma once

#include <limits>

#include "unisono/kernels/layer_kernels.hpp"

namespace unisono::models {

/// R² = 1 − Σ(y − t)² / Σ(t − mean t)² of all values in the sums. NaN if the sums of targets were not computed, or if
/// all targets are equal: if Σ(t − mean t)² = Σt² − (Σt)²/n is no larger than the n roundings of Σt².
inline double r2_of(const kernels::LossSums& sums) {
  constexpr double kRounding = 0x1p-53;
  const auto values = static_cast<double>(sums.values);
  const double spread = sums.target_squared_sum - sums.target_sum * sums.target_sum / values;
  const double rounded = values * kRounding * sums.target_squared_sum;
  return spread > rounded ? 1 - sums.squared_error / spread : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace unisono::models
