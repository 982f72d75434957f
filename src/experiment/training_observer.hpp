#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint_store.hpp"
#include "evaluator.hpp"
#include "metrics_log.hpp"
#include "parts.hpp"
#include "progress.hpp"
#include "run_folder.hpp"
#include "serving_report.hpp"
#include "stop.hpp"

namespace unisono {

/// What rank 0 writes to.
struct Records {
  MetricsLog& metrics;
  Progress& progress;
};

/// What the observer of a run borrows.
struct ObserverContext {
  const Config& config;
  ModelParts& parts;
  TrainingParts& training;
  Dataset& data;
  const StopSignals& signals;
  std::int64_t steps_per_epoch;
  CheckpointStore& checkpoints;
  Records* records;         ///< null but on rank 0
  CheckpointHeader header;  ///< of the next checkpoint; where a resumed run begins
};

/// What a run does with finished steps: reports, evaluations at epochs' ends, checkpoints, and the agreement to stop.
/// What falls due at a step where the ranks hold different models is done at the next one where they hold the same.
class TrainingObserver final : public Observer {
 public:
  explicit TrainingObserver(ObserverContext context);

  bool step(const StepRecord& record) override;
  std::int64_t next_due(std::int64_t step) const override;

  /// After the last step: what is still due, the final evaluation unless interrupted, the last checkpoint. Collective.
  void finish();

  bool interrupted() const { return interrupted_; }
  std::int64_t steps() const { return header_.step; }
  std::int64_t examples() const { return examples_; }  ///< trained on since the (re)start, over all ranks
  /// Mean training losses over the last epoch (so far, where it was interrupted).
  std::vector<Metric> train_metrics() const { return context_.parts.model->metrics(header_.epoch_sums); }
  /// Of the last step, by split.
  const std::map<Split, std::vector<Metric>>& evaluations() const { return evaluations_; }

 private:
  void note_due(const StepRecord& record);
  void report();
  void add_losses(const LossSums& sums);
  void require_finite(const LossSums& sums);
  void require_finite(Split split, const std::vector<Metric>& metrics);
  [[noreturn]] void fail(const std::string& what);
  ServingReport serving_since_report();
  void write_report(const LossSums& sums, const Seconds& seconds, const ServingReport& serving);
  void add_norms(nlohmann::ordered_json& line) const;
  void average_weights();
  void evaluate(Split split);
  void judge(const std::vector<Metric>& metrics);
  void write_checkpoint();
  void advance_checkpoint();
  void finish_checkpoint();
  void say_epoch();
  void show_progress();
  bool stop_is_agreed();
  std::int64_t epochs_done() const { return header_.cursor.epoch; }
  /// Of a step that was made, from 1.
  std::int64_t epoch_of(std::int64_t step) const { return (step - 1) / context_.steps_per_epoch + 1; }

  ObserverContext context_;
  CheckpointHeader& header_;
  StopAgreement agreement_;
  StepRecord last_{};
  struct Due {
    bool report = false, epoch = false, evaluation = false, checkpoint = false;
  } due_;
  bool interrupted_ = false;
  std::int64_t first_step_, reported_step_, written_step_ = -1;
  std::int64_t examples_ = 0, reported_examples_ = 0;
  Seconds reported_seconds_;
  ServingReport reported_serving_;
  Stopwatch since_start_, since_report_;
  double reported_loss_, examples_per_second_ = 0;
  bool newly_best_ = false;
  std::map<Split, std::vector<Metric>> evaluations_;
};

}  // namespace unisono
