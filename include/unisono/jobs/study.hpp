#pragma once

#include "unisono/jobs/trial_options.hpp"
#include "unisono/session/run.hpp"

namespace unisono::jobs {

/// Trains the serial run of a config and each variant of its [study] with the same seeds, one training after the other,
/// each on the first ranks of the job while the others sleep; compares them; and writes study.json, study.md, and a
/// journal from which it can be resumed. Collective over the job.
/// \return complete, or interrupted
/// \throws ConfigError naming a variant that cannot be trained; OutputError, DataError, CheckpointError
session::RunStatus study(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                         const TrialOptions& options);

}  // namespace unisono::jobs
