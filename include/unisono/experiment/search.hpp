#pragma once

#include <string>

#include "unisono/experiment/run.hpp"
#include "unisono/experiment/search_settings.hpp"

namespace unisono::experiment {

/// What a search or a cross-validation is asked to do in addition to its config.
struct TrialOptions {
  std::string output = {};  ///< its folder; empty: runs/<name>-search, runs/<name>-cross-validation
  Existing existing = Existing::refuse;
};

/// Trains the trials of a config's [search], on all ranks of the job, and writes what came of them to a folder: a
/// journal from which it can be resumed, trials.csv, search.json, and best.toml, the config of the best trial. The
/// table is the same for any number of ranks, except where the method depends on timing. Collective over the job.
/// \return complete, or interrupted
/// \throws any Error
RunStatus search(Job& job, const ConfigText& config, const models::ModelKinds& models, const TrialOptions& options);

/// The trials that a search would begin with, as text, without training any; what depends on results is left out.
std::string list_trials(const ConfigText& config, const models::ModelKinds& models);

}  // namespace unisono::experiment
