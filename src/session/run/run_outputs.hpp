#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "run/summary.hpp"
#include "unisono/records/event_file.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/progress.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/run_plan.hpp"

namespace unisono::session {

/// Where rank 0 reports finished steps.
struct Records {
  records::MetricsLog* metrics;  ///< null if the run writes no files
  records::Progress& progress;
};

/// Creates and locks the run's folder on rank 0. \return null on other ranks, and where there is to be none
/// \throws as RunFolder, and ConfigError if the run needs a folder but has none
std::unique_ptr<const records::RunFolder> claim_folder(const comm::Communicator& group, const settings::Config& config,
                                                       const RunOptions& options);

/// All files of a run except checkpoints: rank 0 writes them to the run's folder, if it has one; other ranks write
/// nothing.
class RunOutputs {
 public:
  /// Both must outlive it.
  RunOutputs(const RunPlan& plan, const RunOptions& options);

  /// Whether the run has a folder; the same on every rank.
  bool in_folder() const { return in_folder_; }

  /// Removes an earlier run's results if they are to be overwritten, and begins the log file with these lines.
  void begin(Log& log, const std::vector<std::string>& lines);

  /// Writes config.toml and the dictionary, and opens metrics and events to continue after header.step.
  struct Opening {
    const ModelParts& parts;
    const records::EventFileHeader& events;
    const Clock& clock;
  };
  void open(const Opening& opening, CheckpointHeader& header, Log& log);

  /// Null except on rank 0.
  Records* records() { return records_ ? &*records_ : nullptr; }
  strategies::EventRecorder& events() { return events_; }

  /// Whether an existing summary shows that the run is complete after so many steps: at its end, by the same early
  /// stopping, or by its whole-batch method. False except on rank 0.
  /// \param ends_otherwise whether the method's settings have changed
  bool is_summarised(std::int64_t steps, bool at_end, bool ends_otherwise) const;
  /// What lets a complete run of a whole-batch method continue; empty except on rank 0.
  std::string way_on(std::int64_t steps) const;
  void write(const Summary& summary);

 private:
  void open_folder(const Opening& opening, CheckpointHeader& header);

  const RunPlan& plan_;
  const RunOptions& options_;
  const bool in_folder_;
  const records::RunFolder* const folder_;  ///< null except on rank 0
  std::optional<records::MetricsLog> metrics_;
  std::optional<records::Progress> progress_;
  std::optional<Records> records_;
  records::RunEvents events_;
};

}  // namespace unisono::session
