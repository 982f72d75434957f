#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "unisono/records/journal.hpp"
#include "unisono/records/model_examples.hpp"
#include "unisono/records/statistics.hpp"
#include "validation/splitters.hpp"

namespace unisono::jobs {

/// A metric over all folds.
struct FoldMetric {
  std::string name;            ///< "accuracy"
  records::Interval interval;  ///< of the folds' values
  std::int64_t folds = 0;      ///< that have it: it is undefined in others, as AUC is where all examples have one class
  std::optional<double> pooled = {};  ///< over all validation examples; empty where the folds' values do not give it
};

/// What came of each fold. Nothing but seconds depends on ranks or time.
struct FoldResults {
  const Folds& folds;
  std::vector<records::TrialResult> results;  ///< by fold
  std::vector<std::string> choices;           ///< by fold: what a nested search chose; empty: nothing was nested
  double overlap = 0;                         ///< overlap_of; above 0, the intervals take it into account
  double seconds = 0;                         ///< from the first fold's begin to the last one's end, in this job
  std::vector<std::string> class_names = {};  ///< of the set; empty: it does not name them

  /// The validation metrics of folds that are complete. \pre one is
  std::vector<FoldMetric> metrics() const;
  /// A line for each fold.
  std::string csv() const;
  nlohmann::ordered_json json() const;
  /// Which folds' methods for the whole training set ended before they converged, and why; empty: none did.
  std::string short_of_convergence() const;
  /// A line for each metric: mean, deviation, interval, pooled value.
  std::string text() const;
};

/// The set whose examples were predicted.
struct PredictedSet {
  const data::DataSettings& settings;
  const std::vector<std::string>& class_names;     ///< empty: it does not name them
  std::optional<records::ClassReading> reading{};  ///< how outputs are read as classes; empty: they are values
};

/// Collects what the models of the folds predicted for their validation examples: FOLDER/predictions.csv has a line for
/// each fold and example, by example: its number, the fold, its label where there is one, and the outputs, in columns
/// that are named as in the tables of `unisono predict`. Where every example was predicted once, FOLDER/predictions.h5
/// has the outputs, too, as `unisono predict` writes them. \param outputs_of a fold's outputs, [examples, outputs]; a
/// fold that has none is left out \throws OutputError
void write_predictions(const std::string& folder, const Folds& folds, const PredictedSet& set,
                       const std::function<std::vector<float>(std::int64_t fold)>& outputs_of);

/// The floats of a file; none where it does not exist. \throws OutputError
std::vector<float> read_floats(const std::string& path);

}  // namespace unisono::jobs
