#pragma once

#include <string>

#include "unisono/base/errors.hpp"
#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/experiment/config.hpp"

namespace unisono::experiment {

/// The run went wrong by itself: its loss is no number.
struct TrainingError : Error {
  explicit TrainingError(const std::string& message) : Error(ExitCode::other, "training error", message) {}
};

/// What to do where the run folder holds results already.
enum class Existing { refuse, resume, overwrite };

enum class Watching {
  automatic,  ///< a bar on a terminal, else lines
  bar,
  lines,
  none
};

struct TrainOptions {
  Existing existing = Existing::refuse;
  Watching watching = Watching::automatic;
  std::string compare_with = {};  ///< a run's folder, or a checkpoint: the summary tells how far from it this run ends
  std::string replayed = {};      ///< a run's folder, whose record of events this run keeps to
};

/// From now on SIGTERM, SIGINT and SIGUSR1 are remembered until `train` heeds them: one that comes while MPI starts, or
/// while the set is read, ends the run after its first step. A second SIGTERM or SIGINT ends the process at once.
void hold_stop_signals();

/// Trains, or goes on with training, as the config says, and leaves everything in its run folder. SIGTERM, SIGINT and
/// SIGUSR1 at any rank end it with a checkpoint. Collective.
/// \return success, or interrupted
/// \throws any Error; TrainingError where the loss is no number
ExitCode train(comm::Communicator& world, const Config& config, const TrainOptions& options, Log& log);

/// Repeats a run of which strategy.record kept the order of events, on any number of ranks, and compares what comes
/// out. Collective. \param output the repeated run's folder; empty: "replay" in the run's \return success where all
/// parameters have the same bits \throws CheckpointError for a record that is damaged or does not fit build, machine or
/// data; TrainingError where
///         parameters differ
ExitCode replay(comm::Communicator& world, const std::string& run, const std::string& output,
                const models::ModelKinds& models, Log& log);

}  // namespace unisono::experiment
