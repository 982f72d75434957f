#pragma once

#include <string>
#include <vector>

#include "unisono/base/log.hpp"

// Tables of runs: what their folders say, without their data or their models.

namespace unisono::experiment {

enum class TableFormat { text, json, csv };

/// A table of these runs: what differs in their configs, their last figures, speed and status; and means ± standard
/// deviations over those complete ones that differ by their seeds alone.
/// \throws CheckpointError for a folder that holds no run, or a damaged one
std::string compare_runs(const std::vector<std::string>& runs, TableFormat format);

/// The same of all runs in a folder and below it. What holds no run, or a damaged one, is named in a warning and passed
/// over. \throws CheckpointError where there is no such folder
std::string list_runs(const std::string& folder, TableFormat format, Log& log);

}  // namespace unisono::experiment
