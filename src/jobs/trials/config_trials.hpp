#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trials/shared_set.hpp"
#include "trials/trainer.hpp"
#include "trials/trial_job.hpp"
#include "unisono/jobs/trial_options.hpp"
#include "unisono/settings/plans.hpp"

namespace unisono::jobs {

/// How the trainings of a job are divided among its ranks, as these keys of the config say.
struct TrialRanks {
  std::int64_t ranks = 1;    ///< of one training
  std::int64_t threads = 1;  ///< of each of its ranks
  std::string_view ranks_key, threads_key;
};

/// What searches and cross-validations have in common: trainings of one config, of which each changes some keys, on one
/// set that is in memory once a node; each leaves a run folder, and the journal says when it started and ended.
class ConfigTrials : public TrialJob {
 public:
  JobFolder folder() const override;
  SlotShape shape() const override { return shape_; }
  records::TrialResult make(comm::Communicator& group, const records::TrialTask& task, Dispatcher* dispatcher) override;
  void begin(records::Journal& journal) override;
  void resume(const records::Journal& journal) override;
  records::TrialTask task_for(const records::TrialRun& training) override;
  void note_start(records::Journal& journal, const records::TrialRun& training, double seconds) override;
  void note_end(records::Journal& journal, const records::TrialRun& training, const records::TrialResult& result,
                double seconds) override;

 protected:
  /// Checks that all ranks have the same config and can be divided so, and opens the set. Collective over the job.
  /// \param kind in journals: "search", "cross_validation" \param planned what `text` says
  ConfigTrials(session::Job& job, std::string kind, const ConfigText& text, const models::ModelKinds& models,
               const settings::PlannedConfig& planned, const TrialOptions& options, const TrialRanks& ranks);

  /// How many trainings run side by side.
  std::int64_t at_a_time() const { return job_.ranks().size() / shape_.ranks * shape_.here; }
  /// The config with all keys in force.
  std::string identity() const;

  /// Keys that may have other values when the job goes on, beside those that may in all.
  virtual std::vector<std::string_view> free_keys() const = 0;
  /// Of each trial; 0: the examples are not divided into folds.
  virtual std::int64_t folds() const = 0;
  /// Whether trainings leave run folders.
  virtual bool keeps_runs() const = 0;
  /// Which metric of the validation examples counts, and what may end a training: see TrialTerms.
  virtual TrialTerms terms() const = 0;
  /// Says what begins, on rank 0.
  virtual void say_begin() const = 0;
  /// What a training changes of the config. Called on rank 0, as are the two below.
  virtual std::vector<std::string> overrides(const records::TrialRun& training) const = 0;
  /// Where a training leaves its run.
  virtual std::string folder_of(const records::TrialRun& training) const = 0;
  /// The file for a training's predictions of the validation examples; empty: none.
  virtual std::string outputs_of(const records::TrialRun&) const { return ""; }

  session::Job& job_;
  const models::ModelKinds& models_;
  ConfigText text_;
  settings::PlannedConfig planned_;
  std::string folder_;
  SharedSet set_;  ///< stays open, so that all trainings find it

 private:
  /// \throws CheckpointError
  void require_same_job(const records::Journal& journal) const;

  std::string kind_;
  records::Existing existing_;
  std::int64_t threads_;
  std::string_view threads_key_;
  SlotShape shape_;
};

}  // namespace unisono::jobs
