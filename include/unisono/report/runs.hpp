#pragma once

#include <string>
#include <vector>

#include "unisono/base/log.hpp"

// Tables of runs, made from their folders alone, without data or models.

namespace unisono::report {

enum class TableFormat { text, json, csv };

/// A table of these runs: differences of their configs, last metrics, speed and status; and mean ± standard deviation
/// over complete runs that differ only by their seeds.
/// \throws CheckpointError if a folder holds no run, or a damaged one
std::string compare_runs(const std::vector<std::string>& runs, TableFormat format);

/// The table of all runs in a folder and its subfolders. Folders without a run, and damaged runs, are skipped with
/// a warning.
/// \throws CheckpointError if there is no such folder
std::string list_runs(const std::string& folder, TableFormat format, Log& log);

}  // namespace unisono::report
