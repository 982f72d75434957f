#pragma once

#include <string>
#include <utility>
#include <vector>

#include "history.hpp"
#include "page.hpp"
#include "plot/frame.hpp"
#include "plot/plots.hpp"
#include "trials_history.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/records/model_examples.hpp"
#include "unisono/report/report.hpp"

namespace unisono::report {

// The sections of a run's page. One without anything to show has no blocks.

/// What was trained on what, how, on which machine; and what its config chooses.
Section section_of_settings(const RunHistory& run, const models::ModelKinds& models);
/// How it ended, and the metrics of each split.
Section section_of_result(const RunHistory& run);
/// Losses and metrics over epochs and steps.
Section section_of_metrics(const RunHistory& run);
/// Learning rate, norms, steps of whole-batch methods.
Section section_of_steps(const RunHistory& run);
/// Examples per second, and where the time went.
Section section_of_time(const RunHistory& run);
/// A prediction of its speed beside what happened, where `unisono plan --grade` has made one.
Section section_of_prediction(const RunHistory& run);
/// When simulated ranks computed, and when they waited.
Section section_of_timeline(const RunHistory& run);
/// What failures of simulated hosts cost.
Section section_of_failures(const RunHistory& run);
/// What the strategy counted: histograms of staleness, servers and workers, counters over time.
Section section_of_counters(const RunHistory& run);
/// Other figures of the summary: bytes sent, memory, a comparison.
Section section_of_other_figures(const RunHistory& run);
/// How a step of a pipeline goes, predicted.
Section section_of_pipeline(const RunHistory& run, const ReportOptions& options);
/// Confusion matrix, the worst examples, neighbours of embeddings: what the newest checkpoint does on its data.
Section section_of_examples(const RunHistory& run, const ReportOptions& options, Log& log);

/// The seconds of all reports, those before a run was resumed, too.
Seconds seconds_of(const RunHistory& run);

/// A bar of seconds a row.
plot::BarPlot time_plot(const std::string& title, const std::vector<std::string>& rows,
                        const std::vector<Seconds>& seconds);

/// The keys of an effective config that make a difference: without such a key, the config would be another one. In the
/// order of their names, with their values as TOML; all keys where this version cannot read the config.
std::vector<std::pair<std::string, std::string>> chosen_keys(const std::string& effective,
                                                             const models::ModelKinds& models);

/// The name of a class, or its number where it has none.
std::string class_name(const std::vector<std::string>& names, Index label);

/// Adds a confusion matrix as a drawing, unless it has very many classes, and the figures of each class.
/// \pre matrix.has_cells()
void add_matrix(Section& section, const records::ConfusionMatrix& matrix, const std::vector<std::string>& names);

/// A curve over epochs, or over steps where it is not known how many an epoch has.
plot::Series series_of(const RunHistory& run, const std::string& curve, const std::string& name);
/// The label of their x axis.
std::string epoch_label(const RunHistory& run);
/// A y axis for such curves: logarithmic where all values are positive and far apart.
plot::Axis axis_for(const std::vector<plot::Series>& series);
/// A plot of such curves; its y axis is logarithmic where all values are positive and far apart.
Drawing curves_drawing(const std::string& title, const std::string& x_label, std::vector<plot::Series> series);

/// A curve of what a strategy counted.
struct CounterCurve {
  std::string curve;  ///< its name in RunHistory::curves
  std::string words;  ///< "mean staleness"
};
/// Means of histograms, and single counters; numbers in other groups would be too many.
std::vector<CounterCurve> counter_curves(const RunHistory& run);

// The sections of a search's page. One without anything to show has no blocks.

/// A key that a search varies, as numbers.
struct SearchColumn {
  std::string name;            ///< "optimizer.learning_rate"; within a choice: "optimizer[adam].learning_rate"
  plot::Axis axis;             ///< how it is drawn; choices are numbered
  std::vector<double> values;  ///< [trials]; NaN where the trial does not have it
};
/// The trials that have ended well.
struct SearchTable {
  std::vector<std::int64_t> trials;
  std::vector<double> values;  ///< [trials] of the metric
  std::vector<double> epochs;  ///< [trials]
  std::vector<SearchColumn> columns;
};
SearchTable table_of(const SearchHistory& search);
/// The names of the columns, and what a trial has there as text; empty where it does not have it.
std::vector<std::string> column_names(const SearchHistory& search);
std::vector<std::string> cells_of(const SearchHistory& search, std::int64_t trial);

/// A y axis for values of the metric.
plot::Axis metric_axis(const SearchHistory& search, const std::vector<double>& values);

/// What was searched, how it ended, the best settings.
Section section_of_search_result(const SearchHistory& search);
/// Parallel coordinates, slices, importance.
Section section_of_space(const SearchHistory& search);
/// The best so far, rungs.
Section section_of_course(const SearchHistory& search);
/// Which trainings ran when.
Section section_of_timeline(const TrialsHistory& job);
/// A line for each trial.
Section section_of_trials(const SearchHistory& search);
/// The config, with its plans.
Section section_of_trials_config(const TrialsHistory& job);

}  // namespace unisono::report
