#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trials/dispatcher.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/job.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::jobs {

class TrialJob;

/// The cores that a rank needs for a training: strategies whose threads share a model say themselves how many.
std::int64_t cores_of_training(const settings::Config& config, std::int64_t threads);

/// How the ranks of a job are divided for its trainings.
struct SlotShape {
  int ranks = 1;  ///< that make one training together
  int here = 1;   ///< trainings that this rank makes at the same time, where `ranks` is 1
};

/// \param ranks of one training, as `key` of the config says \param threads of each of its ranks \param device whether
/// they train on GPUs \throws ConfigError where the job's ranks cannot be divided so
SlotShape slot_shape(const session::Job& job, std::int64_t ranks, std::int64_t threads, bool device,
                     std::string_view key = "search.ranks_per_trial");

/// Warns where the threads of one training are more than a rank's share of the cores. \param key of the config
void warn_if_crowded(session::Job& job, std::int64_t threads, std::string_view key);

/// A set's identity, as journals hold it under "data".
std::string identity_text(std::uint64_t identity);
/// \param folder of the job \param entry of its journal, from which earlier versions left out "data" \param path of the
/// set, whose identity is `identity` now \throws DataError where the entry is about other data
void require_same_data(const std::string& folder, const nlohmann::json& entry, const std::string& path,
                       const std::string& identity);

/// Makes all trainings that rank 0 hands out, on all ranks of the job, and returns when it hands out no more.
/// Collective over the job. \param dispatcher rank 0's; null elsewhere
void make_trial_runs(session::Job& job, TrialJob& trials, Dispatcher* dispatcher);

/// Where a job of many trainings writes.
struct JobFolder {
  std::string path, journal;
  records::FolderOwner owner = records::FolderOwner::trials;
  records::Existing existing = records::Existing::refuse;
  std::vector<std::string> runs;     ///< names of what is there as soon as a training has begun …
  std::vector<std::string> results;  ///< … and at the job's end; both go where the job is begun anew
};

/// When a job hands out nothing more, and when it ends a training.
struct EndOfTrials {
  double seconds = 0;               ///< since the job began; 0: never
  std::optional<double> loss = {};  ///< as soon as a trial's is so low
  bool median_rule = false;         ///< ends trainings that are worse than most others were at the same epoch
};

/// A job of many trainings: which there are, how one is made, and what its journal says of it.
class TrialJob {
 public:
  virtual ~TrialJob() = default;

  virtual trials::Plan& plan() = 0;
  virtual JobFolder folder() const = 0;
  virtual SlotShape shape() const = 0;
  virtual EndOfTrials end() const { return {}; }

  /// Makes a training on the ranks of a group. Collective over the group; called from several threads at once where
  /// a rank makes several trainings. \param dispatcher the group's rank 0 asks it whether to go on; null elsewhere
  /// \return how it ended: on the group's rank 0, at least
  virtual records::TrialResult make(comm::Communicator& group, const records::TrialTask& task,
                                    Dispatcher* dispatcher) = 0;

  // All others are called on rank 0 alone, never two at a time.

  /// Checks that a journal is this job's, and writes that it begins or goes on. \throws CheckpointError, OutputError
  virtual void begin(records::Journal& journal) = 0;
  /// Brings the plan to the state of the journal, and says what begins. \throws CheckpointError, ConfigError
  virtual void resume(const records::Journal& journal) = 0;
  virtual records::TrialTask task_for(const records::TrialRun& training) = 0;
  /// Write what the journal must say of a training. \param seconds since the job began
  virtual void note_start(records::Journal&, const records::TrialRun&, double /*seconds*/) {}
  virtual void note_end(records::Journal& journal, const records::TrialRun& training,
                        const records::TrialResult& result, double seconds) = 0;
  /// Called when journal and plan know that a training has ended.
  virtual void ended(const records::TrialRun& training, const records::TrialResult& result) = 0;
};

/// Makes the folder of a job ready, locks it, and opens its journal. Called on rank 0.
/// \throws OutputError where the folder is somebody else's, holds trainings that are neither resumed nor replaced, or
/// cannot be written; CheckpointError where there is nothing to resume, or `begin` throws it
std::unique_ptr<records::Journal> open_journal(TrialJob& trials);

/// Makes all trainings, or those that are missing. Collective over the job.
/// \return whether the plan is complete: false where the job was asked to stop; the same on all ranks
/// \throws OutputError, CheckpointError about the folder; what a training throws that is not its result
bool run_trials(session::Job& job, TrialJob& trials);

/// \throws OutputError
void make_folder(const std::string& folder);

// What a trial's run folder has from which it or others go on: its newest checkpoint, and its states at the ends of its
// steps, which other trials may take over.

bool has_checkpoint(const std::string& run_folder);
void remove_checkpoints(const std::string& run_folder);

/// Keeps the newest checkpoint, which the trial's next step may remove. If it cannot be kept, nobody takes it over.
void keep_state(const std::string& run_folder, std::int64_t epochs);
/// Removes the states that were kept.
void remove_states(const std::string& run_folder);
/// Puts another trial's last state of fewer epochs than these in the place of a trial's checkpoints.
/// \throws CheckpointError
void take_over(const std::string& other_folder, std::int64_t epochs, const std::string& run_folder);

}  // namespace unisono::jobs
