#pragma once

#include <string>

#include "unisono/records/run_folder.hpp"
#include "unisono/session/run.hpp"
#include "unisono/settings/cross_validation_settings.hpp"

namespace unisono::jobs {

/// What a search, a cross-validation or a study is asked to do in addition to its config.
struct TrialOptions {
  std::string output = {};  ///< its folder; empty: runs/<name>-search, runs/<name>-cross-validation, studies/<name>
  records::Existing existing = records::Existing::refuse;
};

/// Trains the trials of a config's [search], on all ranks of the job, and writes what came of them to a folder: a
/// journal from which it can be resumed, trials.csv, search.json, and best.toml, the config of the best trial. The
/// table is the same for any number of ranks, except where the method depends on timing. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
session::RunStatus search(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                          const TrialOptions& options);

/// The trials that a search would begin with, as text, without training any; what depends on results is left out.
std::string list_trials(const ConfigText& config, const models::ModelKinds& models);

/// Trains a config's model on each fold of its training examples, as its [cross_validation] says, on all ranks of the
/// job, and writes to a folder what it is worth on the others: folds.csv, cross_validation.json, predictions.csv, and a
/// journal from which it can be resumed. The tables are the same for any number of ranks. Collective over the job.
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

}  // namespace unisono::jobs
