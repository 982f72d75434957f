#pragma once

#include <cstdint>
#include <string>

#include "run/summary.hpp"
#include "unisono/base/log.hpp"
#include "unisono/records/event_file.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/session/training_parts.hpp"
#include "unisono/settings/config.hpp"

// Resuming a run: what its config must have in common with the checkpoint's, and what is restored.
namespace unisono::session {

/// Decides for a run that is resumed: the sizes of a step that are left to the placement, and the number of threads
/// that share a model, are those with which the run was started. Collective.
Settled settle_as_before(comm::Communicator& group, Settled asked);

/// The freshly made run that is to continue from a checkpoint.
struct ResumedRun {
  const RunPlan& plan;
  ModelParts& parts;
  TrainingParts& training;
  const Criteria& criteria;
  CheckpointHeader& header;  ///< as for a new run; its progress is overwritten
  std::int64_t steps_per_epoch = 1;
  const RunOptions& options;
};

/// Restores the run's vectors, and the progress in its header, from a checkpoint. Logs where the run continues, and
/// what prevents it from being bit-identical to an uninterrupted run. Collective. \throws ConfigError, CheckpointError
/// (on rank 0) if the config does not continue the run that was started
void resume_from(const StoredCheckpoint& checkpoint, const ResumedRun& run, Log& log);

/// What a replay repeats of a recorded run.
struct Repetition {
  strategies::EventRecord events;
  std::int64_t steps = 0;  ///< number of steps to repeat
};

/// Reads a run's record and checks that it can be replayed here bit for bit. Steps after the run's newest checkpoint,
/// which a killed run may have recorded, are not repeated, because there is nothing to compare with. \param here
/// binary, machine and data of this process \param checkpoint step of the newest checkpoint \throws CheckpointError if
/// the record is damaged, or saying why it cannot be replayed here
Repetition plan_repetition(const std::string& run, const records::EventFileHeader& here, std::int64_t checkpoint,
                           Log& log);

/// \throws TrainingError if the replay ended with other parameters than the recorded run
void require_repeated(const Summary& summary, const std::string& run_folder);

// Over how many epochs or steps a decaying learning rate is spread, when a run is resumed with another length.

/// The state from which a run is resumed.
struct ResumedAt {
  const std::string& config;  ///< effective config, from the checkpoint
  std::int64_t step = 0, steps_per_epoch = 1;
};

/// The schedule of a run of this config.
optim::Schedule schedule_of(const settings::Config& config, std::int64_t steps_per_epoch);

/// Refuses to let another length of the run change the learning rate unasked.
/// \throws ConfigError saying what would happen to the rate, and how to choose, if the schedule would span other steps
/// than before and has no length of its own
void require_chosen_span(const settings::Config& config, const ResumedAt& at);

/// A log line about the schedule of a resumed run if its own length changes it; empty if it does not.
std::string change_of_span(const settings::Config& config, const ResumedAt& at);

/// A log line at a run's start if the run is longer or shorter than its schedule; else empty.
std::string span_note(const settings::Config& config, std::int64_t steps_per_epoch);

/// Advice on how to continue a complete run.
std::string way_to_go_on(const settings::Config& config, std::int64_t steps_per_epoch);

}  // namespace unisono::session
