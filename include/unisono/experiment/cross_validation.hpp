#pragma once

#include "unisono/experiment/cross_validation_settings.hpp"
#include "unisono/experiment/search.hpp"

namespace unisono::experiment {

/// Trains a config's model on each fold of its training examples, as its [cross_validation] says, on all ranks of the
/// job, and writes to a folder what it is worth on the others: folds.csv, cross_validation.json, predictions.csv, and a
/// journal from which it can be resumed. The tables are the same for any number of ranks. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
RunStatus cross_validate(Job& job, const ConfigText& config, const models::ModelKinds& models,
                         const TrialOptions& options);

}  // namespace unisono::experiment
