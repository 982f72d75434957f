#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

#include "unisono/records/run_folder.hpp"

namespace unisono::report {

struct MeanAndDeviation {
  double mean = 0, deviation = 0;  ///< deviation: of the sample, with n − 1
};
/// \param values at least two
MeanAndDeviation mean_and_deviation(const std::vector<double>& values);

/// Complete runs that differ only by their seeds: indices in RunTable::runs.
using SeedGroup = std::vector<std::size_t>;

/// A table of runs to compare.
struct RunTable {
  std::vector<records::RunRecord> runs;
  std::vector<std::string> differing;  ///< keys of the config whose values differ between runs; without the seed
  bool seeds_differ = false;
  std::vector<std::string> metrics;  ///< "test loss", …: those that any run has
  std::vector<SeedGroup> groups;     ///< each with at least two seeds, on the same number of ranks

  explicit RunTable(std::vector<records::RunRecord> records);

  /// The value of a key in a run's config, as TOML; empty if the run does not have it.
  std::string value(std::size_t run, const std::string& key) const;
};

/// Which of the metrics that a split has are shown where nobody asks for others. The area under the ROC curve is one of
/// them for two classes. \param names "loss", "accuracy", "f1"
std::set<std::string> usual_metrics(const std::set<std::string>& names);
/// The same of a table: "test loss".
std::vector<std::string> usual_metrics(const RunTable& table);

/// A folder that is left out of a table, and why.
struct SkippedFolder {
  std::string folder, reason;
};

std::string to_text(const RunTable& table);
nlohmann::ordered_json to_json(const RunTable& table, const std::vector<SkippedFolder>& skipped);
/// A line per run.
std::string to_csv(const RunTable& table);

}  // namespace unisono::report
