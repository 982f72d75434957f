#pragma once

#include <cstdint>
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

/// The folder of one run, used by rank 0: config.toml, dictionary.h5, metrics.jsonl, summary.json, log.txt,
/// checkpoints/, tensorboard/. Locked for its lifetime, so that two runs never write to the same one.
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

/// Replaces a text file atomically, by renaming a temporary one. \throws OutputError
void write_text_file(const std::string& path, const std::string& text);
/// The same for callers with advice of their own. \return why it cannot be written; empty: it is
std::string try_to_write_text_file(const std::string& path, const std::string& text);
/// \throws OutputError
std::string read_text_file(const std::string& path);

}  // namespace unisono::records
