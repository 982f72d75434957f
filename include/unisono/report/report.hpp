#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/models/factory.hpp"
#include "unisono/records/model_examples.hpp"

namespace unisono::report {

/// The arguments of `unisono report`.
struct ReportOptions {
  std::vector<std::string> folders;
  std::string output;              ///< an HTML file; empty: report.html, inside the folder where there is only one
  std::int64_t examples = 0;       ///< how many of the worst examples are shown; 0: the model is not applied
  models::ModelKinds models = {};  ///< added kinds of models (docs/own-model.md)
  /// Applies the newest checkpoint of a run's folder. Empty: pages have no examples.
  std::function<records::ModelExamples(const std::string& run, Log& log)> apply_model = {};
  /// Draws (SVG) how a step of a pipeline goes, from a run's folder, its effective config and its number of ranks (0:
  /// not known). Empty: pages have no such drawing.
  std::function<std::string(const std::string& run, const std::string& config, int ranks)> predict_timeline = {};
};

/// Writes one HTML file about a run, several runs beside each other, a search, a cross-validation or a study. It needs
/// no other file and no network. One process does it. An earlier report is replaced; no other file is. \throws
/// CheckpointError for a folder that holds nothing to report on, or a damaged run; OutputError
void report(const ReportOptions& options, Log& log);

/// The arguments of `unisono watch`.
struct WatchOptions {
  std::string folder;
  bool once = false;  ///< whether one picture is printed, and no more
  double every_seconds = 1;
  models::ModelKinds models = {};  ///< added kinds of models (docs/own-model.md)
};

/// Shows how a run, a search or a cross-validation goes, until it ends: on a terminal one picture that is drawn again,
/// elsewhere one for each change. \throws CheckpointError for a folder that holds no run, search or cross-validation
void watch(const WatchOptions& options);

// Tables of runs, made from their folders alone, without data or models.

enum class TableFormat { text, json, csv };

/// A table of runs, by their folders: differences of their configs, last metrics, speed and status; and mean ± standard
/// deviation over complete runs that differ only by their seeds.
/// \throws CheckpointError if a folder holds no run, or a damaged one
std::string compare_runs(const std::vector<std::string>& runs, TableFormat format);

/// The table of all runs in a folder and its subfolders. Folders without a run, and damaged runs, are skipped with
/// a warning.
/// \throws CheckpointError if there is no such folder
std::string list_runs(const std::string& folder, TableFormat format, Log& log);

}  // namespace unisono::report
