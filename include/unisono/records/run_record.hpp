#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace unisono::records {

/// What is read from a run's folder, for tables of runs.
struct RunRecord {
  std::string folder;
  std::string status;  ///< from its summary (complete, interrupted, …), or running, or unfinished (it was killed)
  std::map<std::string, std::string> config;  ///< {"train.epochs", "10"}: the effective config, values as TOML
  std::int64_t epochs = 0, steps = 0;
  int ranks = 0, threads = 0;             ///< 0: not known yet
  double examples_per_second = 0;         ///< 0: not known yet
  std::map<std::string, double> metrics;  ///< the last value of each: "train loss", "test accuracy"
  /// What it counted, as its summary says, by its path: "averaged_bytes", "gossip.staleness.mean".
  std::map<std::string, double> counters;

  /// The config's seed: "3"; empty if the config has none.
  std::string seed() const;
};

/// Whether a process of this machine holds the lock of a file. Queries the lock without taking it, because a run that
/// starts meanwhile would mistake it for another run.
bool is_locked(const std::string& path);

/// \throws CheckpointError saying what is wrong with the folder
RunRecord read_run(const std::string& folder);

}  // namespace unisono::records
