#pragma once

#include <memory>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/job.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// What a run is: what was asked for, and decisions on all that was left open, made once. Whatever takes part in the
/// run reads the plan, and nothing changes it.
struct RunPlan {
  const settings::Config config;                        ///< the config, with all values in force
  const std::vector<Choice> choices;                    ///< who decided which values of the config
  const std::unique_ptr<comm::Communicator> reordered;  ///< null: the ranks keep their order
  comm::Communicator& group;                            ///< the ranks in the order of their places
  const int given_rank;  ///< this rank's number in the old order, of which the config speaks
  /// The run's folder, locked; null where this rank writes no files.
  const std::unique_ptr<const records::RunFolder> folder;
  const std::shared_ptr<const SharedStaging> staging;  ///< null: the set is not staged
  const std::shared_ptr<SharedDataset> set;

  data::Dataset& data() const { return **set; }
  /// The trial that has decided how many threads share a model; null: there was none.
  const Choice* trial_of_threads() const;
};

/// Decides all that a config leaves open, in the order in which decisions are possible. Collective over the group,
/// which must outlive the plan. \throws any Error
RunPlan plan_run(Job& job, comm::Communicator& group, const settings::Config& asked, const RunOptions& options);

/// Notes among a run's counters what the job has read of a staged set.
void count_staged(const RunPlan& plan, CounterSet& counters);

/// For which trainings a config is checked.
struct CheckedUse {
  int ranks = 1;
  bool with_folds = false;    ///< whether folds of the training examples validate the model
  bool in_older_job = false;  ///< RunOptions::in_older_job of the trainings
};

/// Checks a config by making what training would make, as far as it depends neither on the ranks nor on much memory:
/// the set's metadata, the model, the strategy, the update rule. Reads no features. Not collective.
/// \return a text about what was checked, or that the data file is missing and was not checked
/// \throws ConfigError, DataError as training does
std::string check(const settings::Config& config, const CheckedUse& use = {});

}  // namespace unisono::session
