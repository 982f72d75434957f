#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trials/dispatcher.hpp"
#include "trials/slots.hpp"
#include "unisono/jobs/trial_options.hpp"
#include "unisono/session/run.hpp"

namespace unisono::jobs {

/// A job of many trainings, as a search or a cross-validation describes it.
struct TrialJob {
  std::string kind;      ///< "search", "cross_validation"
  std::string folder;    ///< journal.jsonl, trials/, and what the caller writes
  std::string identity;  ///< the config as TOML: a journal is resumed only where it is the same, but for …
  std::function<bool(const std::string& key)> may_change;  ///< … these keys
  records::Existing existing = records::Existing::refuse;
  bool keeps_runs = true;  ///< whether trainings leave run folders
  bool only_best = false;  ///< whether only the best trial keeps its checkpoints
  bool hands_on = false;   ///< whether trials take over the weights of others
  std::int64_t folds = 0;  ///< of each trial; 0: none
  trials::Plan& plan;
  const trials::TrialPlan* compared = nullptr;  ///< the plan, where its trials are compared; else null
  TrainingTerms terms;
  SlotShape shape;
  EndOfTrials end;
  /// Called when the folder has been found to be right, before the first training. On rank 0, as are the following.
  std::function<void()> on_begin;
  /// Where a training leaves its run.
  std::function<std::string(const records::Training&)> folder_of;
  std::function<std::string(const records::Training&)> outputs_of = {};  ///< TrainingOrder::outputs; empty: none
  /// What a trial changes of the config.
  std::function<std::vector<std::string>(const records::Training&)> overrides;
  /// Called after each training that has ended.
  std::function<void(const records::Training&, const records::TrainingResult&)> on_end;
};

/// Makes the folder of a job ready, and opens its journal. Called on rank 0.
/// \throws OutputError where it holds trials and these are neither resumed nor replaced, or cannot be written;
/// CheckpointError where there is nothing to resume, or the config has changed
std::unique_ptr<records::Journal> open_journal(const TrialJob& trials);

/// Makes all trainings, or those that are missing. Collective over the job.
/// \return whether the plan is complete: false where the job was asked to stop; the same on all ranks
/// \throws OutputError, CheckpointError about the folder; what a training throws that is not its result
bool run_trials(session::Job& job, const TrialJob& trials);

}  // namespace unisono::jobs
