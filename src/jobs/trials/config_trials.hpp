#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trials/dispatcher.hpp"
#include "trials/trial_job.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/jobs/jobs.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/search/search.hpp"
#include "unisono/session/job.hpp"
#include "unisono/session/run.hpp"
#include "unisono/settings/config.hpp"
#include "unisono/settings/job_settings.hpp"

namespace unisono::jobs {

/// What all trainings of a job have in common.
struct TrialTerms {
  const ConfigText& config;  ///< of which an order changes keys
  const models::ModelKinds& models;
  /// The examples of a training; empty: as the config says.
  std::function<std::optional<data::Fold>(const records::TrialRun&)> fold_of = {};
  std::string metric = "auto";  ///< the validation metric that counts
  std::int64_t threads = 1;     ///< of each rank
  double seconds = 0;           ///< a training that takes longer fails; 0: none does
  bool reports_epochs = false;  ///< whether a training may be ended after any epoch
  bool in_older_job = false;    ///< as session::RunOptions::in_older_job
  bool must_be_defined = true;  ///< a training fails where the metric that counts is undefined
  /// Throws ConfigError for what the job refuses in its config, and so in that of a training. May be empty.
  std::function<void(const settings::Config&)> require = {};
};

/// What a config changes for a training on all examples, none of which says when to stop or which weights are the best.
inline constexpr std::array kRefitOverrides = {"data.validation_fraction=0", "train.early_stopping={}",
                                               "checkpoint.best={}", "train.threshold_by=''"};

/// Trains for so many epochs, of a run that would have train.epochs, to which its learning rates belong. 0: for all
void take_epochs(settings::Config& config, std::int64_t epochs);

/// Makes the training that is ordered, on all ranks of a group. Collective over the group; every rank gets the same
/// result. What is wrong with the training itself is a result; other errors are thrown.
/// \param whole the job, of which the group is a part \param dispatcher the group's rank 0 asks it whether to go on;
/// null elsewhere
records::TrialResult make_trial_run(session::Job& whole, comm::Communicator& group, const TrialTerms& terms,
                                    const records::TrialTask& task, Dispatcher* dispatcher);

/// The set of a job's trainings, in memory once a node. Its construction is collective over the job.
class SharedSet {
 public:
  /// \param text of `config`; where the set's arrangement in memory depends on a seed, that is fixed in it
  SharedSet(session::Job& job, ConfigText& text, const settings::Config& config);

  const data::DatasetInfo& info() const;
  data::Dataset& set() const;
  /// The config with which trainings find this set open.
  const ConfigText& text() const { return text_; }

 private:
  ConfigText& text_;
  std::shared_ptr<session::SharedDataset> set_;
};

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

  /// Whether the job began before, and goes on.
  bool goes_on() const { return existing_ == records::Existing::resume; }
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
  std::string folder_;
  settings::PlannedConfig planned_;
  SharedSet set_;  ///< stays open, so that all trainings find it

 private:
  std::string data_identity() const;
  /// \throws CheckpointError; DataError where the job began on other data
  void require_same_job(const records::Journal& journal) const;

  std::string kind_;
  records::Existing existing_;
  std::int64_t threads_;
  std::string_view threads_key_;
  SlotShape shape_;
};

/// How long the trials of a search take, for those that are to start with the longest. Empty where the space varies
/// nothing that makes them longer, or the search may end before all trials have started: then the order of the numbers
/// is as good. \param text the config of all trials; both it and `data` must outlive the function
search::TrialWork work_of_trials(const search::SearchSettings& settings, const search::Space& space,
                                 const ConfigText& text, const models::ModelKinds& models,
                                 const data::DatasetInfo& data);

/// Refuses a space of which some values could be in no trial, before the first one starts.
/// \param require throws ConfigError for configs that no trial may have \throws ConfigError
void require_space(const search::Space& space, const ConfigText& given, const search::SearchSettings& settings,
                   const models::ModelKinds& models, const std::function<void(const settings::Config&)>& require);

/// By which metric of the validation examples trials are compared.
class MetricThatCounts {
 public:
  /// \param key "validation.accuracy", "accuracy", or "auto" \throws ConfigError for another split
  explicit MetricThatCounts(const std::string& key);

  /// Finds out what "auto" is. Called before the functions below. \param has_folds whether folds of the training
  /// examples validate \throws ConfigError where the model has no such metric, nothing validates, or the metric is
  /// undefined for what validates
  /// \param in_older_job as session::RunOptions::in_older_job
  void require(const settings::Config& config, data::Dataset& set, bool has_folds, bool in_older_job);

  const std::string& name() const { return name_; }  ///< "accuracy"
  std::string text() const { return "validation " + name_; }
  bool larger_is_better() const { return larger_is_better_; }

 private:
  std::string name_;
  bool larger_is_better_ = false;
};

}  // namespace unisono::jobs
