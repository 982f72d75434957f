#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace unisono::experiment {

/// What a run's folder says of it.
struct RunRecord {
  std::string folder;
  std::string status;  ///< as its summary says (complete, interrupted, …); running; unfinished: it was killed
  std::map<std::string, std::string> config;  ///< {"train.epochs", "10"}: the effective config, values as TOML
  std::int64_t epochs = 0, steps = 0;
  int ranks = 0, threads = 0;             ///< 0: it did not come so far as to say
  double examples_per_second = 0;         ///< 0: likewise
  std::map<std::string, double> metrics;  ///< the last ones: "train loss", "test accuracy"

  /// "3"; empty where the config does not say.
  std::string seed() const;
};

/// Whether a folder looks like a run's.
bool holds_run(const std::string& folder);

/// \throws CheckpointError saying what is wrong with the folder
RunRecord read_run(const std::string& folder);

}  // namespace unisono::experiment
