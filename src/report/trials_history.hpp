#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "unisono/search/space.hpp"
#include "unisono/settings/job_settings.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::report {

/// When a training ran, in seconds since its job began; the pauses between two parts of a job are left out.
struct TrainingSpan {
  records::TrialRun training;
  double start = 0, end = 0;
  std::optional<records::TrialResult> result = {};  ///< nothing: it runs, or its job was stopped or killed
  bool is_running = false;
};

/// What the journal of a search or a cross-validation tells. It may go on meanwhile.
struct TrialsHistory {
  std::string folder, kind;  ///< "search", "cross_validation"
  std::string config;        ///< TOML, with its plans
  std::string status;        ///< running, complete, interrupted, or unfinished (it was killed)
  std::int64_t folds = 0;    ///< 0: the examples are not divided into folds
  std::vector<nlohmann::json> entries;
  std::vector<TrainingSpan> trainings;  ///< in the order of their starts
  double seconds = 0;                   ///< that the job has taken so far

  std::string name() const;
  std::int64_t running() const;
  std::int64_t ended() const;
  /// The most trainings that ran at the same time.
  std::size_t at_once() const { return rows().count; }

  /// A row for each training, such that those of a row follow each other: as if each row were a worker.
  struct TimelineRows {
    std::vector<std::size_t> of_training;
    std::size_t count = 0;
  };
  TimelineRows rows() const;
};

/// \throws CheckpointError saying what is wrong with the folder
TrialsHistory read_trials(const std::string& folder);

/// The end of a step of a trial: of all its trainings to the same number of epochs.
struct StepEnd {
  std::int64_t trial = 0;
  std::int64_t epochs = 0;  ///< of the trial so far
  std::optional<std::int64_t> copied = {};
  double value = 0;  ///< mean over repeats and folds; NaN where the trial failed
  double at = 0;     ///< seconds since the job began
};

/// What is known of a search. Its plan is brought up to date with the journal, as if the search went on.
struct SearchHistory {
  TrialsHistory job;
  settings::PlannedConfig planned;
  search::Space space;
  std::unique_ptr<trials::TrialPlan> plan;
  std::vector<StepEnd> steps;  ///< in the order in which they ended
  std::string metric;          ///< "validation accuracy"
  bool larger_is_better = false;

  const search::SearchSettings& settings() const { return *planned.plans.search; }
  /// NaN for a trial that has not ended well.
  double value(std::int64_t trial) const;
  bool is_better(double a, double b) const { return larger_is_better ? a > b : a < b; }
  /// Whether trials are trained in several steps, of which some go on.
  bool is_in_steps() const { return search::trains_in_steps(settings().method); }
  /// Of each key that is varied its value, in the order of the config.
  std::vector<std::pair<std::string, std::string>> settings_of(std::int64_t trial) const;
  /// The run folder of a training.
  std::string folder_of(const records::TrialRun& training) const {
    return trials::trial_folder(job.folder, plan->shape(), training);
  }
};

/// \throws CheckpointError, or ConfigError for a search that this version cannot read
SearchHistory read_search(const std::string& folder, const models::ModelKinds& models);

/// Seconds until a job's last training ends, at the speed of those that have ended; negative: it is not known.
double seconds_left(const SearchHistory& search);
double seconds_left(const TrialsHistory& validation);

}  // namespace unisono::report
