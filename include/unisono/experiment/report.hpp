#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/models/factory.hpp"

namespace unisono::experiment {

/// The arguments of `unisono report`.
struct ReportOptions {
  std::vector<std::string> folders;
  std::string output;              ///< an HTML file; empty: report.html, of one folder inside it
  std::int64_t examples = 0;       ///< how many of the worst examples are shown; 0: the model is not applied
  std::string data;                ///< the set of these examples; empty: the one the model was trained on
  models::ModelKinds models = {};  ///< of one's own
};

/// Writes one HTML file about a run, several runs beside each other, a search, a cross-validation or a study. It needs
/// no other file and no network. One process does it. An earlier report is replaced; no other file is. \throws
/// CheckpointError for a folder that holds nothing to report on, or a damaged run; OutputError
void report(const ReportOptions& options, Log& log);

/// The arguments of `unisono watch`.
struct WatchOptions {
  std::string folder;
  bool once = false;  ///< print one picture
  double every_seconds = 1;
  models::ModelKinds models = {};  ///< of one's own
};

/// Shows how a run, a search or a cross-validation goes, until it ends: on a terminal one picture that is drawn again,
/// elsewhere one for each change. \throws CheckpointError for a folder that holds none of these
void watch(const WatchOptions& options);

}  // namespace unisono::experiment
