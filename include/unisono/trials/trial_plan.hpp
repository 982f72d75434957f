#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "unisono/records/journal.hpp"
#include "unisono/search/search.hpp"
#include "unisono/search/space.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::trials {

/// How many trainings a trial is made of, and what follows the last trial.
struct PlanShape {
  std::int64_t repeats = 1;  ///< seeds with which a trial is trained
  std::int64_t folds = 0;    ///< folds of a trial; 0: the examples are not divided into folds
  bool refit = false;        ///< whether the best trial is trained once more, on all examples
};

/// A trial, as far as it is known.
struct TrialRecord {
  records::TrialRun step;  ///< what all of its trainings have in common now: epochs, copied
  /// Results of the trial's trainings, by repeat and fold.
  std::map<std::pair<std::int64_t, std::int64_t>, records::TrialResult> results = {};
  bool has_ended = false;  ///< whether all trainings of the current step have ended
  records::TrialStatus status = records::TrialStatus::complete;  ///< status of the first training that is not complete
  std::string message = {};
  double value = 0;      ///< mean of the metric over repeats and folds
  double deviation = 0;  ///< standard deviation over repeats and folds; 0 for a single training
  double seconds = 0;    ///< seconds of all trainings
};

/// Which trainings a job makes. Nothing depends on which ranks make which trainings. Called again with the same
/// trainings and results, a new object comes to the same state.
class Plan {
 public:
  virtual ~Plan() = default;
  /// The next training that could start now; nothing: no training can start before another one has ended, or the plan
  /// is complete.
  virtual std::optional<records::TrialRun> next() const = 0;
  /// Says that a training, which `next` gave, has started.
  virtual void started(const records::TrialRun& training) = 0;
  /// Says that a training has ended. \throws CheckpointError for a training that has not started
  virtual void ended(const records::TrialRun& training, const records::TrialResult& result) = 0;
  virtual bool is_complete() const = 0;
  /// From now on no further trial begins; trainings of trials that have begun still start.
  virtual void begin_no_more() = 0;
  /// Makes trainings that have started and not ended start once more, since the ranks that made them are gone.
  virtual void restart_unended() = 0;
};

/// The steps that a search method asks for, each with every seed and on every fold.
class TrialPlan final : public Plan {
 public:
  TrialPlan(std::unique_ptr<search::SearchMethod> method, const PlanShape& shape);

  std::optional<records::TrialRun> next() const override;
  void started(const records::TrialRun& training) override;
  void ended(const records::TrialRun& training, const records::TrialResult& result) override;
  bool is_complete() const override;
  void begin_no_more() override { begins_no_more_ = true; }
  void restart_unended() override;

  const search::SearchMethod& method() const { return *method_; }
  const PlanShape& shape() const { return shape_; }
  const std::map<std::int64_t, TrialRecord>& trials() const { return trials_; }
  /// The trial with the lowest loss, the first one of several; nothing where no trial has ended well.
  std::optional<std::int64_t> best() const;
  /// How the training of the best trial on all examples ended; nothing where it has not ended.
  const std::optional<records::TrialResult>& refitted() const { return refitted_; }
  std::int64_t trainings_per_step() const { return shape_.repeats * std::max<std::int64_t>(1, shape_.folds); }

 private:
  std::vector<records::TrialRun> trainings_of(const records::TrialRun& step) const;
  void end_step(TrialRecord& trial);

  std::unique_ptr<search::SearchMethod> method_;
  PlanShape shape_;
  std::map<std::int64_t, TrialRecord> trials_;
  std::deque<records::TrialRun> waiting_;  ///< trainings of steps that have begun
  std::vector<records::TrialRun> running_;
  std::optional<records::TrialResult> refitted_;
  bool begins_no_more_ = false;
};

/// Brings a plan to the state of a journal's entries, and lets trainings that have not ended start once more.
/// \throws CheckpointError where the entries do not fit the plan
void replay(const std::vector<nlohmann::json>& entries, Plan& plan);

/// What a training of a trial changes in the config: the values of the trial's point, and the seed, which is a function
/// of the experiment's seed and of the training's numbers.
std::vector<std::string> trial_overrides(const search::Space& space, const TrialPlan& plan, std::int64_t seed,
                                         const records::TrialRun& training);

/// The config of all trials with the values of a point. \throws ConfigError where the values are impossible
settings::Config config_at(const ConfigText& text, const std::vector<search::Assignment>& values,
                           const models::ModelKinds& models);

/// Where a search's training leaves its run: "FOLDER/trials/0007", "FOLDER/trials/0007/repeat-1/fold-3", "FOLDER/best".
std::string trial_folder(const std::string& search, const PlanShape& shape, const records::TrialRun& training);

/// The settings of a trial as text: "optimizer.learning_rate = 0.1, train.batch_size = 32".
std::string trial_text(const search::Space& space, const TrialPlan& plan, std::int64_t trial);

/// Several plans side by side, one for each outer fold: the trainings of plan i have `outer` = i.
class NestedPlan final : public Plan {
 public:
  explicit NestedPlan(std::vector<std::unique_ptr<TrialPlan>> plans) : plans_(std::move(plans)) {}

  std::optional<records::TrialRun> next() const override;
  void started(const records::TrialRun& training) override;
  void ended(const records::TrialRun& training, const records::TrialResult& result) override;
  bool is_complete() const override;
  void begin_no_more() override;
  void restart_unended() override;

  const TrialPlan& of(std::int64_t outer) const { return *plans_.at(static_cast<std::size_t>(outer)); }

 private:
  std::vector<std::unique_ptr<TrialPlan>> plans_;
};

/// Ends trainings early that are worse than the median of the others.
///   A training stops after an epoch if the best loss that it has reached is above the median, over the other trainings
///   that have come as far, of the means of their losses up to that epoch.
///   Golovin et al., "Google Vizier: a service for black-box optimization", KDD 2017, section 3.2.2.
class MedianRule {
 public:
  /// Notes a loss, and judges by what is known so far. \return whether the training should go on
  bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss);

 private:
  /// Before so many other trainings have come as far, no training is stopped.
  static constexpr std::ptrdiff_t kLeastOthers = 4;

  struct Curve {
    records::TrialRun training;
    std::map<std::int64_t, double> losses;  ///< losses by the epochs made
  };
  Curve& curve_of(const records::TrialRun& training);
  std::vector<double> means_of_others(const Curve& own, std::int64_t epochs) const;

  std::vector<Curve> curves_;
};

/// The table of a search's trials.
struct TrialTable {
  const TrialPlan& plan;
  const search::Space& space;
  std::string metric;          ///< "validation accuracy"
  std::int64_t at_a_time = 1;  ///< how many trainings could run side by side
  double seconds = 0;          ///< seconds from the first trial's begin to the last trial's end, in this job

  /// A line for each trial: its number, how it ended, value, deviation, epochs, settings, metrics (means over repeats
  /// and folds), message. Nothing in the table depends on time or ranks.
  std::string csv() const;
  /// The table as JSON, with the times. Cores were in trials for Σ trials' seconds / (at_a_time · seconds) of the time.
  nlohmann::ordered_json json(bool is_complete) const;
};

}  // namespace unisono::trials
