#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/job.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// The training itself failed: it diverged, or a replay ended elsewhere.
struct TrainingError : Error {
  explicit TrainingError(const std::string& message) : Error(ExitCode::other, "training error", message) {}
};

/// How a run shows its progress.
enum class Watching {
  automatic,  ///< a bar on a terminal, otherwise lines
  bar,
  lines,
  none
};

/// Where a run leaves its results.
enum class Results {
  in_folder,  ///< the config's run folder: config, log, metrics, checkpoints, summary
  nowhere     ///< only in what `run` returns: no file is written, and the run cannot be resumed
};

/// What a run is asked to do in addition to its config.
struct RunOptions {
  records::Existing existing = records::Existing::refuse;  ///< only with Results::in_folder
  Watching watching = Watching::automatic;
  std::string compare_with = {};  ///< a run's folder or a checkpoint: the summary gives the distance to its parameters
  std::string replayed = {};      ///< a run's folder: this run replays its recorded events
  Results results = Results::in_folder;
  /// Whether a resumed run may have other settings than those with which its checkpoint was made, as long as the model
  /// and the optimizer's state have the same form: it takes over another run's weights.
  bool takes_over = false;
  /// Keys of the config that a resumed run changes on request; each is one of may_change_on_request.
  std::vector<std::string> changes = {};
  /// Whether the run belongs to a job that began earlier, whose config need not keep rules that are newer than the job.
  bool in_older_job = false;
  const data::Fold* fold = nullptr;  ///< the examples to train and to validate on; null: as the config says
  /// Called from time to time on every rank; if it returns true on one, all ranks stop. May be empty.
  std::function<bool()> stop = {};
  /// Called on every rank after an evaluation of the validation examples, with the epochs made and the metrics, which
  /// are the same on all. May be empty.
  std::function<void(std::int64_t epochs, const std::vector<models::Metric>& metrics)> evaluated = {};
  /// Called on every rank before its first step. May be empty.
  std::function<void()> before_steps = {};
  /// Called on every rank before a checkpoint of this step is written. May be empty.
  std::function<void(std::int64_t step)> before_checkpoint = {};
  /// Called on every rank when a complete run has stored its results, and nothing is left but its end. May be empty.
  std::function<void()> stored = {};
  /// If not null, it is set to θ at the end of the run; where the strategy shards θ, to this rank's part.
  std::vector<float>* parameters = nullptr;
  /// If not null, it is set to what the final model predicts for the validation examples, in their order: [examples,
  /// outputs]. Not for models that ranks hold in parts.
  std::vector<float>* validation_outputs = nullptr;
};

/// How a run ended.
enum class RunStatus {
  complete,
  already_complete,  ///< the run was resumed after its last step: nothing was left to do
  interrupted,       ///< stopped by a signal; the run can be resumed if it has a folder
  stopped,           ///< stopped by RunOptions::stop; the run can be resumed if it has a folder
  diverged           ///< the loss grew too large, or a loss or parameter is not finite
};

/// A run's result; the same on every rank.
struct RunResult {
  RunStatus status = RunStatus::complete;
  std::string message = {};    ///< if the run diverged: what happened and what to do
  bool stopped_early = false;  ///< whether the run was complete before train.epochs, with the weights of best.step
  BestEvaluation best = {};    ///< the best of all evaluations
  /// Why a method for the whole training set ended before it converged: "train.epochs iterations were made; …"; else
  /// empty.
  std::string short_of_convergence = {};
  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 0, steps = 0;      ///< epochs and steps made in all, earlier parts of a resumed run included
  std::int64_t examples = 0;               ///< examples trained on since the (re)start, over all ranks
  double examples_per_second = 0;          ///< per second of training, without evaluations and checkpoints
  std::vector<models::Metric> train = {};  ///< training metrics over the last epoch
  std::map<data::Split, std::vector<models::Metric>> evaluations = {};  ///< metrics after the last step, by split
  Seconds seconds = {};                                                 ///< mean seconds of the ranks that train
};

/// Trains a model as the config says, or resumes its training, on all ranks of a group. Collective over the group;
/// disjoint groups of a job may run at the same time.
/// \param group all ranks of the job, or some of them
/// \throws any Error; the group must not be used for communication afterwards
RunResult run(Job& job, comm::Communicator& group, const settings::Config& config, const RunOptions& options = {});

/// Replays a run whose order of events was recorded (strategy.record), on any number of ranks, and compares the
/// resulting parameters. Collective over the job.
/// \param path the recorded run's folder \param output the new run's folder; empty: "replay" inside the recorded one's
/// \return complete if all parameters have the same bits
/// \throws CheckpointError if the record is damaged or does not fit binary, machine or data; TrainingError if
/// parameters differ
RunResult replay(Job& job, const std::string& path, const std::string& output, const models::ModelKinds& models);

}  // namespace unisono::session
