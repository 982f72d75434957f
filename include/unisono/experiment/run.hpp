#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/experiment/checkpoint.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/experiment/job.hpp"

namespace unisono::experiment {

/// A run went wrong by itself.
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

/// Where a run leaves its results.
enum class Results {
  in_folder,  ///< the config's run folder: config, log, metrics, checkpoints, summary
  nowhere     ///< in what `run` returns alone: no file is written, and the run cannot be resumed
};

struct RunOptions {
  Existing existing = Existing::refuse;  ///< in a folder
  Watching watching = Watching::automatic;
  std::string compare_with = {};  ///< a run's folder, or a checkpoint: the summary tells how far from it this run ends
  std::string replayed = {};      ///< a run's folder, whose record of events this run keeps to
  Results results = Results::in_folder;
  /// Asked now and then on every rank; the wish of one rank stops all. Empty: nobody asks.
  std::function<bool()> stop = {};
  /// Is set to what this rank holds of θ when the run ends. Null: nobody wants it.
  std::vector<float>* parameters = nullptr;
};

enum class RunStatus {
  complete,
  already_complete,  ///< it was resumed at its end: nothing was left to do
  interrupted,       ///< by a signal; it can be resumed if it has a folder
  stopped,           ///< by RunOptions::stop; likewise
  diverged           ///< its loss, or a parameter, is no number or beyond all measure
};

/// What a run came to; the same on every rank, but for `parameters`.
struct RunResult {
  RunStatus status = RunStatus::complete;
  std::string message = {};    ///< diverged: what happened and what to do
  bool stopped_early = false;  ///< complete before train.epochs, with the weights of best.step
  BestEvaluation best = {};    ///< of all evaluations
  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 0, steps = 0;  ///< made, in earlier parts of a resumed run, too
  std::int64_t examples = 0;           ///< trained on since the (re)start, over all ranks
  double examples_per_second = 0;      ///< over the time of training, without evaluations and checkpoints
  std::vector<models::Metric> train = {};
  std::map<data::Split, std::vector<models::Metric>> evaluations = {};  ///< of the last step
  strategies::Seconds seconds = {};                                     ///< means over ranks that train
};

/// Trains, or goes on with training, as the config says, on all ranks of a group. Collective over the group; groups
/// of one job that share no rank may run side by side.
/// \param group all ranks of the job, or some of them
/// \throws any Error; the group's ranks can then do nothing more together
RunResult run(Job& job, comm::Communicator& group, const Config& config, const RunOptions& options = {});

/// Repeats a run of which strategy.record kept the order of events, on any number of ranks, and compares what comes
/// out. Collective over the job. \param path the run's folder \param output the repeated run's; empty: "replay" in the
/// run's \return complete where all parameters have the same bits \throws CheckpointError for a record that is damaged
/// or does not fit build, machine or data; TrainingError where parameters differ
RunResult replay(Job& job, const std::string& path, const std::string& output, const models::ModelKinds& models);

}  // namespace unisono::experiment
