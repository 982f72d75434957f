#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "run/checkpoint_pace.hpp"
#include "run/kept_models.hpp"
#include "run/run_outputs.hpp"
#include "run/stop.hpp"
#include "run/summary.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {

/// Detects divergence: the reported training loss stays above `factor` times a reference for a whole epoch. The
/// reference is the first loss, the mean over the first steps with at least kLeastExamples examples. It is at least
/// kLeastFirstLoss, so that the loss of a model that begins nearly right may rise a little. In regression it is at
/// least the targets' mean square, the loss of a model that predicts 0, so that a few large targets late in an epoch do
/// no harm. Called with the same arguments on all ranks, with the same results.
class Divergence {
 public:
  static constexpr double kLeastFirstLoss = 0.1;
  static constexpr std::int64_t kLeastExamples = 16;

  /// \param factor 0: no loss is too large \param state kept in checkpoints; must outlive this object
  Divergence(double factor, std::int64_t steps_per_epoch, DivergenceState& state)
      : factor_(factor), steps_per_epoch_(steps_per_epoch), state_(state) {}

  /// Whether offer_first_loss should be called: there is no first loss yet.
  bool wants_first_loss() const { return factor_ > 0 && !state_.has_first_loss; }
  /// Takes the first loss from the sums of all steps since the (re)start at step `since`, if they have enough examples.
  /// \param last whether a report follows, so that no more steps are added to the sums: they then need not be enough
  void offer_first_loss(const kernels::LossSums& sums, std::int64_t since, bool last);
  /// Takes a reported loss. \param sums of the steps since the previous report \param step steps made
  void report(const kernels::LossSums& sums, std::int64_t step);
  bool is_too_large(const kernels::LossSums& sums) const;
  /// Whether the last reported loss was too large.
  bool is_above() const { return is_above_; }
  /// Whether all losses reported during an epoch were too large.
  bool has_diverged(std::int64_t step) const { return is_above_ && step - state_.below_until >= steps_per_epoch_; }
  double first_loss() const { return state_.first_loss; }

 private:
  double factor_;
  std::int64_t steps_per_epoch_;
  DivergenceState& state_;
  bool is_above_ = false;
};

/// What the observer of a run uses; references must outlive it.
struct ObserverContext {
  const RunPlan& plan;
  ModelParts& parts;
  TrainingParts& training;
  std::function<StopWish()> wish;  ///< returns this rank's wish to stop
  const std::function<void(std::int64_t, const std::vector<models::Metric>&)>& evaluated;  ///< RunOptions::evaluated
  const std::function<void(std::int64_t)>& before_checkpoint;  ///< RunOptions::before_checkpoint
  std::int64_t steps_per_epoch;
  KeptModels& kept;
  const Criteria& criteria;
  Records* records;  ///< null except on rank 0
  const Clock& clock;
  CheckpointHeader header;  ///< of the next checkpoint; at first as the run starts or resumes
};

/// What a run does after steps: reports, evaluations, checkpoints, and the agreement to stop. If
/// one of these is due at a step where the ranks hold different models, it is done at the next step where they hold the
/// same.
class TrainingObserver final : public strategies::Observer {
 public:
  explicit TrainingObserver(ObserverContext context);

  bool step(const strategies::StepRecord& record) override;
  std::int64_t next_due(std::int64_t step) const override;
  bool reads_gradient(std::int64_t step) const override;

  /// Called before the first step: makes the evaluation that a signal ended when the run was interrupted. Collective.
  /// \return whether steps may follow
  bool make_up_evaluation();
  /// Called before the first step of a run whose settings were changed on request: writes a checkpoint that says so. A
  /// run that is killed before the next one then goes on with them. Collective.
  void write_checkpoint_of_start();

  /// Called after the last step: does what is still due, the final evaluation (unless interrupted), and the last
  /// checkpoint. If the run diverged, it only finishes a checkpoint in progress. Collective.
  void finish();

  bool interrupted() const { return interrupted_; }
  /// Why it was interrupted, if it was.
  StopWish stop_wish() const { return stop_wish_; }
  /// Whether early stopping ended the run. The caller must then restore the model of best().step before `finish`.
  bool stopped_early() const { return stopped_early_; }
  const BestEvaluation& best() const { return header_.best_by; }
  /// If the run diverged: what happened and what to do; else empty.
  const std::string& divergence() const { return diverged_; }
  std::int64_t steps() const { return header_.step; }
  std::int64_t examples() const { return examples_; }  ///< trained on since the (re)start, over all ranks
  /// Mean training losses over the last epoch (so far, where it was interrupted).
  std::vector<models::Metric> train_metrics() const;
  /// What a method for the whole training set has reached; nothing for other optimizers.
  const std::vector<std::int64_t>& worker_steps() const { return header_.worker_steps; }  ///< see StepRecord
  std::optional<Minimisation> minimisation() const;
  /// What train.threshold_by chose at the last evaluation of the validation examples.
  const std::optional<records::ChosenThreshold>& threshold() const { return threshold_; }
  /// Of the last step, by split.
  const std::map<data::Split, std::vector<models::Metric>>& evaluations() const { return evaluations_; }

 private:
  /// What is to be done after a step, or after the next one at which the ranks hold the same model.
  struct Due {
    bool report = false, epoch = false, evaluation = false, checkpoint = false;
    bool copy = false;  ///< in the nodes' memory: nothing that anybody sees
    bool any() const { return report || epoch || evaluation || checkpoint; }
    Due& operator|=(const Due& other) {
      report |= other.report, epoch |= other.epoch, evaluation |= other.evaluation, checkpoint |= other.checkpoint;
      copy |= other.copy;
      return *this;
    }
  };

  Due due_at(std::int64_t step) const;
  void report();
  void note_first_loss();
  kernels::LossSums& counted_losses();
  kernels::LossSums collect_losses();
  void keep_unreported();
  void add_losses(const kernels::LossSums& sums);
  void check_losses(const kernels::LossSums& sums);
  void check_iteration();
  std::string with_rate() const;
  void check_evaluation(data::Split split, const std::vector<models::Metric>& metrics);
  void check_end();
  bool parameters_are_finite();
  void diverge(const std::string& what);
  bool writes_metrics() const { return context_.records != nullptr && context_.records->metrics != nullptr; }
  bool has_diverged() const { return !diverged_.empty(); }
  CounterSet counted_since_report();
  void write_report(const kernels::LossSums& sums, const Seconds& seconds);
  bool made_a_step() const;
  nlohmann::ordered_json norms_now() const;
  void average_weights();
  std::function<bool()> ended_by_signal() const;
  void evaluate(data::Split split);
  void take_threshold(const std::optional<records::ChosenThreshold>& threshold);
  void evaluate_and_judge();
  void judge();
  void write_checkpoint();
  void write_between_reports();
  void copy_between_reports();
  bool is_storable();
  void advance_checkpoint();
  void finish_checkpoint();
  void say_metrics();
  void show_progress(bool reported);
  double shown_loss();
  double shown_rate() const;
  StopWish agreed_wish();
  std::int64_t epochs_done() const { return header_.cursor.epoch; }
  std::int64_t total_steps() const { return context_.plan.config.train.length().steps(context_.steps_per_epoch); }
  /// The epoch of a step, both from 1.
  std::int64_t epoch_of(std::int64_t step) const { return (step - 1) / context_.steps_per_epoch + 1; }

  ObserverContext context_;
  CheckpointHeader& header_;
  CheckpointPace pace_;
  StopAgreement agreement_;
  Divergence divergence_;
  Selection selection_;
  strategies::StepRecord last_{};
  Due due_;
  bool interrupted_ = false, stopped_early_ = false;
  bool said_crowded_ = false;    ///< that threads lack cores
  bool said_pace_ = false;       ///< how often checkpoints are written
  bool said_undefined_ = false;  ///< that a metric which decides is undefined
  StopWish stop_wish_ = StopWish::none;
  std::string diverged_;
  std::int64_t first_step_, written_step_ = -1, judged_step_ = -1, said_step_ = -1;
  std::vector<std::int64_t> reported_worker_steps_;  ///< CheckpointHeader::worker_steps at the last report
  std::int64_t examples_ = 0, reported_examples_ = 0;
  Seconds reported_seconds_;
  CounterSet reported_counters_;  ///< of all ranks
  Stopwatch since_start_, since_report_;
  double reported_loss_, examples_per_second_ = 0;
  bool newly_best_ = false;
  std::optional<records::ChosenThreshold> threshold_;
  std::optional<double> written_threshold_;  ///< of the last checkpoint
  std::map<data::Split, std::vector<models::Metric>> evaluations_;
};

}  // namespace unisono::session
