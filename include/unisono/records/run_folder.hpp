#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace unisono::records {

/// What to do if the run folder already holds results.
enum class Existing { refuse, resume, overwrite };

/// Where a run's checkpoints are.
inline std::string checkpoints_of(const std::string& run_folder) { return run_folder + "/checkpoints"; }

/// Where the config is with which a run was started last, with all values in force.
inline std::string config_of(const std::string& run_folder) { return run_folder + "/config.toml"; }

/// Where a run's record of events is.
inline std::string events_of(const std::string& run_folder) { return run_folder + "/events.bin"; }

/// The folder of one run, used by rank 0: config.toml, data.json, dictionary.h5, metrics.jsonl, summary.json, log.txt,
/// checkpoints/, tensorboard/. Locked for its lifetime, so that two runs never write to the same folder.
class RunFolder {
 public:
  /// Creates the folder, or uses an existing one.
  /// \throws OutputError if it holds results and `existing` is `refuse`, cannot be written, or another run uses it;
  ///         CheckpointError if there is nothing to resume
  RunFolder(std::string path, Existing existing);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  /// Removes an earlier run's results, and nothing else. \throws OutputError
  void clear() const;

  const std::string& path() const { return path_; }
  std::string config() const { return config_of(path_); }
  std::string dictionary() const { return path_ + "/dictionary.h5"; }
  std::string metrics() const { return path_ + "/metrics.jsonl"; }
  std::string summary() const { return path_ + "/summary.json"; }
  std::string events() const { return events_of(path_); }
  std::string tensorboard() const { return path_ + "/tensorboard"; }
  std::string log() const { return path_ + "/log.txt"; }

 private:
  void lock();

  std::string path_;
  int lock_ = -1;
};

/// Writes data.json: where the data set of a run lies. \param given as the config gives it \throws OutputError
void write_place_of_data(const std::string& run_folder, const std::string& given);

/// The path of a run's data set: the place where the run's data.json says that the set lay or else, if both were moved,
/// the same place relative to the run's folder. \return `given` where data.json says nothing of `given`, or where there
/// is no set in any of these places
std::string find_data(const std::string& run_folder, const std::string& given);

/// Replaces a text file atomically, by renaming a temporary one. \throws OutputError
void write_text_file(const std::string& path, const std::string& text);
/// Writes a text file, for callers with advice of their own. \return why the file cannot be written; empty: it is
/// written
std::string try_to_write_text_file(const std::string& path, const std::string& text);
/// Reads a text file. \throws OutputError
std::string read_text_file(const std::string& path);

/// Who writes to a folder: one run, or one job of many trainings.
enum class FolderOwner {
  nobody,  ///< the folder holds nothing, or files of the user's
  run,
  search,
  cross_validation,
  trials,  ///< a search or a cross-validation whose journal does not say which
  study
};

/// Whether an owner is a search or a cross-validation: these have journals of the same form.
inline bool makes_trials(FolderOwner owner) {
  return owner == FolderOwner::search || owner == FolderOwner::cross_validation || owner == FolderOwner::trials;
}

/// The owner of a folder, from the files that are there: a config.toml or a log.txt alone may be the user's.
FolderOwner owner_of(const std::string& folder);

/// Whether a folder is a run's, with files from which tables of runs and reports can be made.
bool holds_run(const std::string& folder);

/// Refuses a folder that is somebody else's, a folder with results that are neither resumed nor replaced, and a folder
/// in which there is nothing to resume. \param mine who wants to write there \param has_results whether `mine` has
/// results there already
/// \throws OutputError, CheckpointError, saying what to do
void require_owner(const std::string& folder, FolderOwner mine, Existing existing, bool has_results);

/// The keys and values of an effective config: {"train.epochs", "10"} and so on. The config has one key a line below
/// its section's header; values that go over several lines belong to the key above them.
std::map<std::string, std::string> config_entries(const std::string& effective);

/// What is read from a run's folder, for tables of runs.
struct RunRecord {
  std::string folder;
  /// From the run's summary (complete, interrupted, …), or running, or unfinished (the run was killed)
  std::string status;
  std::map<std::string, std::string> config;  ///< {"train.epochs", "10"}: the effective config, values as TOML
  std::int64_t epochs = 0, steps = 0;
  int ranks = 0, threads = 0;             ///< 0: not known yet
  double examples_per_second = 0;         ///< 0: not known yet
  std::map<std::string, double> metrics;  ///< the last value of each metric: "train loss", "test accuracy"
  /// What the run counted, as its summary says, by paths: "averaged_bytes", "gossip.staleness.mean".
  std::map<std::string, double> counters;

  /// The config's seed: "3"; empty if the config has none.
  std::string seed() const;
};

/// Whether a process of this machine holds the lock of a file. Queries the lock without taking it, because a run that
/// starts meanwhile would mistake it for another run.
bool is_locked(const std::string& path);

/// Reads a run's folder. \throws CheckpointError saying what is wrong with the folder
RunRecord read_run(const std::string& folder);

}  // namespace unisono::records
