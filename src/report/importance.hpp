#pragma once

#include <vector>

namespace unisono::report {

/// Which of several settings decide about a value.
struct Importance {
  /// [settings] by how much the forest's error grows when a setting's values are exchanged between trials at random, as
  /// a share of the variance of the values' ranks; about 0 where the setting does not matter.
  std::vector<double> settings;
  /// The share of the variance that the forest explains for trials that it did not see; at most 0: nothing.
  double explained = 0;
};

/// Fewer trials say nothing.
inline constexpr std::size_t kFewestTrials = 10;

/// The importance of settings by permutation, in a random forest that predicts the ranks of the values. Always the same
/// for the same numbers. At most 1,000 trials are used, spread evenly.
/// \param settings [settings][trials]; NaN: the trial does not have this setting \param values [trials] all finite
/// \pre at least kFewestTrials trials
Importance importance_of(const std::vector<std::vector<double>>& settings, const std::vector<double>& values);

}  // namespace unisono::report
