#pragma once

#include <string>

#include "unisono/jobs/trial_options.hpp"
#include "unisono/session/run.hpp"

namespace unisono::jobs {

/// Trains the trials of a config's [search], on all ranks of the job, and writes what came of them to a folder: a
/// journal from which it can be resumed, trials.csv, search.json, and best.toml, the config of the best trial. The
/// table is the same for any number of ranks, except where the method depends on timing. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
session::RunStatus search(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                          const TrialOptions& options);

/// The trials that a search would begin with, as text, without training any; what depends on results is left out.
std::string list_trials(const ConfigText& config, const models::ModelKinds& models);

}  // namespace unisono::jobs
