#pragma once

#include "unisono/jobs/trial_options.hpp"
#include "unisono/session/run.hpp"
#include "unisono/settings/cross_validation_settings.hpp"

namespace unisono::jobs {

/// Trains a config's model on each fold of its training examples, as its [cross_validation] says, on all ranks of the
/// job, and writes to a folder what it is worth on the others: folds.csv, cross_validation.json, predictions.csv, and a
/// journal from which it can be resumed. The tables are the same for any number of ranks. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
session::RunStatus cross_validate(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                                  const TrialOptions& options);

}  // namespace unisono::jobs
