#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/run.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/settings/job_settings.hpp"

namespace unisono::jobs {

/// What a search, a cross-validation or a study is asked to do in addition to its config.
struct TrialOptions {
  /// The job's folder; empty: runs/<name>-search, runs/<name>-cross-validation, studies/<name>.
  std::string output = {};
  records::Existing existing = records::Existing::refuse;

  bool goes_on() const { return existing == records::Existing::resume; }
};

/// Trains the trials of a config's [search], on all ranks of the job, and writes what came of them to a folder: a
/// journal from which it can be resumed, trials.csv, search.json, and best.toml, the config of the best trial. The
/// table is the same for any number of ranks, except where the method depends on timing. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
session::RunStatus search(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                          const TrialOptions& options);

/// Checks all that `search` checks before its first trial, and logs the trials that it would begin with; what depends
/// on results is left out. Nothing is trained or written. Collective over the job. \throws any Error
session::RunStatus list_trials(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                               const TrialOptions& options);

/// Trains a config's model on each fold of its training examples, as its [cross_validation] says, on all ranks of the
/// job, and writes to a folder how well each fold's model predicts the examples that it was not trained on: folds.csv,
/// cross_validation.json, predictions.csv, and a journal from which it can be resumed. The tables are the same for any
/// number of ranks. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
session::RunStatus cross_validate(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                                  const TrialOptions& options);

/// Trains the serial run of a config and each variant of its [study] with the same seeds, one training after the other,
/// each on the first ranks of the job while the others sleep; compares them; and writes study.json, study.md, and a
/// journal from which it can be resumed. Collective over the job.
/// \return complete, or interrupted
/// \throws ConfigError naming a variant that cannot be trained; OutputError, DataError, CheckpointError
session::RunStatus study(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                         const TrialOptions& options);

// The learning-rate range test: a short training whose rate rises exponentially shows which rates lower the loss, and
// from which one on it explodes. Smith, "Cyclical learning rates for training neural networks", WACV 2017.

/// The arguments of `unisono find-rate`.
struct FindRateOptions {
  double lowest = 1e-6, highest = 10;  ///< range of the learning rates
  std::int64_t steps = 300;            ///< steps from the lowest to the highest rate
  std::string output;                  ///< folder of find-rate.csv and find-rate.svg; empty: rates/<name>
};

/// One step of a range test.
struct RatePoint {
  double rate = 0, loss = 0;
  double smoothed = 0;  ///< moving average of the losses up to this step
};

/// What the losses at rising rates show.
struct RateRange {
  std::vector<RatePoint> points;  ///< until the loss explodes
  bool exploded = false;
  bool interrupted = false;   ///< whether a signal ended the test: nothing else is known then, and no file was written
  double lowest_loss_at = 0;  ///< the rate at which the smoothed loss is lowest
  /// The rate at which the smoothed loss falls fastest, over the logarithm of the rate; 0: it never falls.
  double steepest_at = 0;
  /// The suggested rate: a tenth of lowest_loss_at; 0 where the loss never falls.
  double suggestion() const { return steepest_at > 0 ? 0.1 * lowest_loss_at : 0; }
};

/// Adds a step of a range test: its loss enters the moving average, whose weights fall by 5 % a step.
/// \return whether the loss has exploded: it is not finite, or the average is four times its lowest value
bool add_loss(RateRange& range, double rate, double loss);
/// Fills in the rates of a range test. \param range with its points
void find_rates(RateRange& range);

/// The text of find-rate.csv.
std::string rate_csv(const RateRange& range);
/// The drawing in find-rate.svg. \param name of the experiment
std::string rate_picture(const RateRange& range, const std::string& name);

/// Makes the learning-rate range test on all ranks (models that are updated in place: on the first one) and writes the
/// files. Collective.
/// \throws ConfigError where there is no learning rate; OutputError
RateRange find_rate(comm::Communicator& world, const settings::Config& config, const FindRateOptions& options,
                    Log& log);

}  // namespace unisono::jobs
