#pragma once

#include <span>

namespace unisono::records {

/// A mean over folds with its two-sided confidence interval.
struct Interval {
  double mean = 0;
  double deviation = 0;      ///< of the values: √(Σ (x − mean)² / (J − 1))
  double low = 0, high = 0;  ///< NaN where there is only one value
};

/// Of J independent values: mean ± t · deviation · √(1/J), with J − 1 degrees of freedom.
Interval mean_interval(std::span<const double> values, double level = 0.95);

/// Of J values whose training examples overlap, as in repeated and in randomly drawn folds:
///     mean ± t · deviation · √(1/J + ratio)
/// The plain interval would be too narrow: more repetitions on the same examples say little new.
/// Nadeau & Bengio, "Inference for the generalization error", Machine Learning 52, 2003.
/// \param ratio validation examples / training examples of a fold
Interval corrected_interval(std::span<const double> values, double ratio, double level = 0.95);

}  // namespace unisono::records
