#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "unisono/settings/config.hpp"
#include "unisono/settings/job_settings.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::trials {

/// A variant of the training, which a study compares with the serial run, or the serial run itself.
struct Variant {
  std::string name;         ///< "averaging (period 16)"
  std::string folder;       ///< folder of the variant's runs: "averaging-period-16-4-ranks"
  settings::Config config;  ///< seed and output are set for each training
  int ranks = 1;            ///< of the job
  std::string identity;     ///< identifies all that decides the variant's results and times

  int threads() const;  ///< threads of a rank
  /// Ranks that train: those of the job, or simulated ones.
  int trained_ranks() const { return config.simulation.is_on() ? static_cast<int>(config.simulation.ranks) : ranks; }
  int cores() const { return trained_ranks() * threads(); }
  /// The variant as text: "averaging (period 16), 4 ranks".
  std::string text() const;
};

/// The section [study] of a config; the defaults where the config has none.
settings::StudySettings study_of(const ConfigText& text, const models::ModelKinds& models);

/// The serial run, and then the variants in the order of the config, each number of ranks and of threads on its own.
/// \param text the config, whose [study] is read \param ranks ranks of the job
/// \throws ConfigError naming the variant
std::vector<Variant> variants_of(const ConfigText& text, const models::ModelKinds& models, int ranks);

/// A study's experiment by L-BFGS, to find the minimum; nothing where the model is not linear, or that minimum is not
/// the minimum of what is trained. \param why on return, why there is none
std::optional<Variant> optimum_of(const Variant& serial, std::string& why);

/// By what a study compares.
struct StudyMetric {
  data::Split split = data::Split::validation;
  std::string name;
  bool larger_is_better = false;
  /// The metric as text: "validation accuracy".
  std::string text() const { return std::string(data::name_of(split)) + " " + name; }
};

/// An unknown number: NaN; in JSON it is null.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// A value of the study's metric during a training.
struct CurvePoint {
  double updates = 0, examples = 0;
  double seconds = 0;  ///< seconds of training, without evaluations and checkpoints
  double value = 0;
};

/// How far a trained model is from another one: from the serial run of the same seed, or a serial run from the serial
/// run of the first seed.
struct ModelDistance {
  bool known = false;             ///< false: there is no other model, or it is of another shape
  std::int64_t different = 0;     ///< parameters with different bits
  double relative = kUnknown;     ///< ‖θ − θ'‖ / ‖θ'‖
  double largest = kUnknown;      ///< max |θ_i − θ'_i|
  double predictions = kUnknown;  ///< root mean square of the outputs' differences
  double classes = kUnknown;      ///< share of examples whose predicted class differs
};

/// What a study keeps of a training.
struct StudyRecord {
  std::string variant;  ///< Variant::identity
  std::int64_t seed = 0;
  bool diverged = false;  ///< whether the training diverged: all but `message` is then unknown
  std::string message = {};
  double value = kUnknown;      ///< the study's metric of the trained model
  double loss = kUnknown;       ///< loss of the trained model on the metric's examples
  double objective = kUnknown;  ///< f(θ) on the training set, where the minimum is sought
  std::int64_t steps = 0;
  double examples = 0;
  Seconds seconds = {};  ///< mean seconds of the ranks that train
  std::vector<CurvePoint> curve = {};
  ModelDistance distance = {};

  /// Seconds of training, without evaluations and checkpoints.
  double training_seconds() const { return seconds.sum() - seconds.evaluation - seconds.checkpoint; }
};

nlohmann::json to_json(const StudyRecord& record);
/// Reads the JSON of a StudyRecord. \throws nlohmann::json::exception for what `to_json` did not make
StudyRecord study_record_from(const nlohmann::json& json);

/// One training of a study.
struct StudyTraining {
  const Variant* variant;
  std::int64_t seed;
};

/// What a study does.
struct StudyPlan {
  std::string name, folder;
  settings::StudySettings settings = {};
  StudyMetric metric = {};
  std::vector<Variant> variants = {};   ///< the serial run first
  std::optional<Variant> optimum = {};  ///< the run that finds the minimum, trained with the first seed only
  std::string no_optimum = {};
  std::int64_t first_seed = 1;

  std::string run_folder(const StudyTraining& training) const;
};

/// All trainings of a study, in the order in which they are made: seed by seed, so that changes of the machine's speed
/// affect all variants alike, and the serial run comes first.
std::vector<StudyTraining> trainings_of(const StudyPlan& plan);

/// The record of a training; null where there is none.
const StudyRecord* find_record(const std::vector<StudyRecord>& records, const StudyTraining& training);

/// A study's trainings as a plan, one at a time: trial i is the training i, which has ended when its record is there.
class StudyProgress final : public Plan {
 public:
  /// \param plan must outlive the object
  explicit StudyProgress(const StudyPlan& plan) : trainings_(trainings_of(plan)) {}

  std::optional<records::TrialRun> next() const override;
  void started(const records::TrialRun& training) override { running_ = training; }
  void ended(const records::TrialRun&, const records::TrialResult&) override { running_.reset(); }
  bool is_complete() const override { return !running_ && !first_missing(); }
  void begin_no_more() override { begins_no_more_ = true; }
  void restart_unended() override { running_.reset(); }

  const std::vector<StudyTraining>& trainings() const { return trainings_; }
  const StudyTraining& at(const records::TrialRun& training) const {
    return trainings_.at(static_cast<std::size_t>(training.trial));
  }
  /// The records of all trainings that have ended, also of variants that the study no longer has.
  const std::vector<StudyRecord>& records() const { return records_; }
  void add(StudyRecord record) { records_.push_back(std::move(record)); }

 private:
  std::optional<std::int64_t> first_missing() const;

  std::vector<StudyTraining> trainings_;
  std::vector<StudyRecord> records_;
  std::optional<records::TrialRun> running_;
  bool begins_no_more_ = false;
};

}  // namespace unisono::trials
