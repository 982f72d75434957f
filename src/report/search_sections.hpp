#pragma once

#include "page.hpp"
#include "plot/frame.hpp"
#include "trials_history.hpp"

namespace unisono::report {

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
