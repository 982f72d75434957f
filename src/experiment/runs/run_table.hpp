#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "runs/run_record.hpp"

namespace unisono::experiment {

struct MeanAndDeviation {
  double mean = 0, deviation = 0;  ///< the latter with n − 1 below the fraction
};
/// \param values two at least
MeanAndDeviation mean_and_deviation(const std::vector<double>& values);

/// Complete runs that differ by their seeds alone: places in RunTable::runs.
using SeedGroup = std::vector<std::size_t>;

/// Some runs beside each other.
struct RunTable {
  std::vector<RunRecord> runs;
  std::vector<std::string> differing;  ///< keys of the config whose values are not the same in all; without the seed
  bool seeds_differ = false;
  std::vector<std::string> metrics;  ///< "test loss", …: all that any of them has
  std::vector<SeedGroup> groups;     ///< of two seeds at least, and as many ranks

  explicit RunTable(std::vector<RunRecord> records);

  /// As TOML; empty where the run has no such key.
  std::string value(std::size_t run, const std::string& key) const;
};

struct SkippedFolder {
  std::string folder, reason;
};

std::string to_text(const RunTable& table);
nlohmann::ordered_json to_json(const RunTable& table, const std::vector<SkippedFolder>& skipped);
/// A line for each run.
std::string to_csv(const RunTable& table);

}  // namespace unisono::experiment
