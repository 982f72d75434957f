#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "machine/parts.hpp"
#include "run/event_file.hpp"
#include "run/metrics_log.hpp"
#include "run/progress.hpp"
#include "run/run_folder.hpp"
#include "run/summary.hpp"
#include "unisono/experiment/run.hpp"

namespace unisono::experiment {

/// What rank 0 tells of finished steps.
struct Records {
  MetricsLog* metrics;  ///< null where results go nowhere
  Progress& progress;
};

/// What a run writes, but for checkpoints: rank 0 to its folder, if it has one; the other ranks nothing.
class RunOutputs {
 public:
  /// Makes and locks the folder. \throws as RunFolder, and ConfigError where the run cannot do without a folder
  RunOutputs(comm::Communicator& group, const Config& config, const RunOptions& options);

  /// Whether there is a folder, on every rank.
  bool in_folder() const { return in_folder_; }

  /// Removes an earlier run, where that is to be overwritten, and begins the log's file with some lines.
  void begin(Log& log, const std::vector<std::string>& lines);

  /// Writes config.toml and the names of the data, and goes on with metrics and events behind header.step.
  struct Opening {
    const Config& config;
    const ModelParts& parts;
    const EventFileHeader& events;
    const Clock& clock;
  };
  void open(const Opening& opening, CheckpointHeader& header, Log& log);

  /// Null but on rank 0.
  Records* records() { return records_ ? &*records_ : nullptr; }
  strategies::EventRecorder& events() { return events_; }

  /// Whether the summary that an earlier part of the run left is of all these steps, and complete: at its end, or by
  /// the same early stopping. On rank 0, else false.
  bool is_summarised(std::int64_t steps, bool at_end, const Config& config) const;
  void write(const Summary& summary, const Config& config);

 private:
  void open_folder(const Opening& opening, CheckpointHeader& header);

  bool is_root_, in_folder_;
  RunOptions options_;
  std::unique_ptr<RunFolder> folder_;  ///< null but on rank 0
  std::optional<MetricsLog> metrics_;
  std::optional<Progress> progress_;
  std::optional<Records> records_;
  RunEvents events_;
};

}  // namespace unisono::experiment
