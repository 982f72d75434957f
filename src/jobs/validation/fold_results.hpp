#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "unisono/records/intervals.hpp"
#include "unisono/records/trial_run.hpp"
#include "validation/folds.hpp"

namespace unisono::jobs {

/// A metric over all folds.
struct FoldMetric {
  std::string name;                   ///< "accuracy"
  records::Interval interval;         ///< of the folds' values
  std::optional<double> pooled = {};  ///< over all validation examples; empty where the folds' values do not give it
};

/// What came of each fold. Nothing but seconds depends on ranks or time.
struct FoldResults {
  const Folds& folds;
  std::vector<records::TrialResult> results;  ///< by fold
  std::vector<std::string> choices;           ///< by fold: what a nested search chose; empty: nothing was nested
  /// Validation examples over training examples, where folds share both: the intervals then take the overlap into
  /// account. 0: they do not.
  double overlap = 0;
  double seconds = 0;  ///< from the first fold's begin to the last one's end, in this job

  /// The validation metrics of folds that are complete. \pre one is
  std::vector<FoldMetric> metrics() const;
  /// A line for each fold.
  std::string csv() const;
  nlohmann::ordered_json json() const;
  /// A line for each metric: mean, deviation, interval, pooled value.
  std::string text() const;
};

}  // namespace unisono::jobs
