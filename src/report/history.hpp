#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trials_history.hpp"
#include "unisono/records/model_examples.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/records/statistics.hpp"

namespace unisono::report {

/// A figure over a run's steps.
struct Curve {
  std::vector<double> steps, values;  ///< NaN where a value is not finite

  bool empty() const { return steps.empty(); }
};

/// All that a run's folder tells about its course.
struct RunHistory {
  records::RunRecord record;
  std::string config;              ///< the text of config.toml
  std::string log;                 ///< log.txt, or its last part
  nlohmann::ordered_json summary;  ///< of the last time that the run ended; an empty object before that
  /// Every number of metrics.jsonl: "train loss", "train seconds.compute" of reports, "validation accuracy" of
  /// evaluations.
  std::map<std::string, Curve> curves;
  double steps_per_epoch = 0;                ///< 0: not known yet
  std::optional<double> restored_step = {};  ///< the step whose weights the run kept, after it had stopped early

  /// The empty curve where there is none of this name.
  const Curve& curve(const std::string& name) const;
  /// Names of the model's metrics that there are curves of, losses first: "loss", "accuracy". Those that are usual, or
  /// that the config names.
  std::vector<std::string> metrics() const;
  /// The names of the others.
  std::vector<std::string> other_metrics() const;
  /// Epochs that these steps are; the steps themselves where it is not known how many an epoch has.
  std::vector<double> epochs_of(const std::vector<double>& steps) const;
  /// A key of the config, without quotes; empty: there is none.
  std::string setting(const std::string& key) const;
  /// The last part of the folder's name, or what the config calls the run.
  std::string name() const;
};

/// \throws CheckpointError saying what is wrong with the folder
RunHistory read_history(const std::string& folder);

/// A fold that has ended.
struct FoldLine {
  std::int64_t fold = 0;
  std::string status, message;
  double training_examples = 0, validation_examples = 0;  ///< NaN: not known yet
  double seconds = 0;
  std::map<std::string, double> metrics;  ///< of its validation examples
};

struct FoldFigures {
  std::string name;
  records::Interval interval;
  double pooled = 0;  ///< NaN: there is none
  double folds = 0;   ///< that have the metric; NaN: an earlier version did not say
};

/// A search within a fold (cross_validation.nested).
struct FoldSearch {
  std::int64_t fold = 0;
  std::int64_t trials = 0;   ///< of which a training has ended
  std::int64_t chosen = -1;  ///< the best trial; −1: not known yet, as are the following
  std::string choice = {};   ///< its settings; empty: only the journal is there
  double value = 0;          ///< of the metric that counts: the chosen trial's mean
  double measured = 0;       ///< of the same metric, on the fold
};

/// What is known of a cross-validation: its results, or while it has not ended those that the journal has.
struct ValidationHistory {
  TrialsHistory job;
  bool corrected_for_overlap = false;
  double examples = 0;  ///< NaN: not known yet
  std::vector<FoldLine> folds;
  std::vector<FoldFigures> figures;
  std::vector<FoldSearch> searches;  ///< where it is nested
  /// Nothing: the results are those of an earlier version, which named the outputs of predictions.csv by the classes.
  std::optional<std::vector<std::string>> class_names = {};

  /// [folds] of those that have it.
  std::vector<double> values(const std::string& metric) const;
};

/// \throws CheckpointError, nlohmann::json::exception
ValidationHistory read_validation(const std::string& folder);

/// What all examples of predictions.csv were taken for by models that were not trained on them.
struct PooledClasses {
  records::ConfusionMatrix matrix;
  std::vector<std::string> names;  ///< empty: they have none
};
/// Nothing where there are no predictions with labels that are classes. \param names of the classes; nothing: they are
/// the names of the columns
std::optional<PooledClasses> read_classes(const std::string& path,
                                          const std::optional<std::vector<std::string>>& names);

/// The fields of the next line of a CSV file, in which quoted fields may have line ends. \return false at the end
bool read_csv_line(std::istream& file, std::vector<std::string>& fields);

}  // namespace unisono::report
