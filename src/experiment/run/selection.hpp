#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "unisono/data/dataset.hpp"
#include "unisono/experiment/checkpoint.hpp"
#include "unisono/experiment/config.hpp"
#include "unisono/models/model.hpp"

// What a run decides by its evaluations: which of its checkpoints is the best one, and whether to stop early.

namespace unisono::experiment {

/// A metric on a split: "validation accuracy".
struct Criterion {
  data::Split split = data::Split::validation;
  std::string metric;
  std::string text() const { return std::string(data::name_of(split)) + " " + metric; }
};

/// Both from the config; a missing one decides nothing.
struct Criteria {
  std::optional<Criterion> best, stopping;
};

/// All metrics that evaluations of this model may have. \param split train: those that its training steps may have
std::vector<models::Metric> possible_metrics(const models::Model& model, data::Split split);

/// \throws ConfigError for a metric that the model does not have, naming those that it has, and for a split without
/// examples
Criteria criteria_of(const Config& config, const models::Model& model, const data::DatasetInfo& data);

/// What a run says at its start of the best checkpoint, where there will be none; else empty.
std::string note_on_best(const Config& config, const data::DatasetInfo& data);

/// Compares evaluations with those before. All ranks tell it the same, and get the same answers.
class Selection {
 public:
  /// \param header whose `best`, `best_by` and `stopping_by` it keeps, and has found in the checkpoint of a resumed run
  Selection(Criteria criteria, const EarlyStoppingSettings& stopping, CheckpointHeader& header);

  /// The splits that have to be evaluated for it.
  bool needs(data::Split split) const;
  /// The metrics of a split after header.step; null where it was not evaluated.
  using MetricsOf = std::function<const std::vector<models::Metric>*(data::Split)>;
  /// \return whether this is the best model so far, whose checkpoint is to be kept
  bool judge(const MetricsOf& metrics_of);
  /// Whether so many evaluations in a row as early stopping has patience for were no improvement.
  bool wants_to_stop() const { return criteria_.stopping && header_.stopping_by.waited >= settings_.patience; }
  const Criteria& criteria() const { return criteria_; }

 private:
  bool judge_best(const models::Metric& metric);
  void judge_stopping(const models::Metric& metric);

  Criteria criteria_;
  EarlyStoppingSettings settings_;
  CheckpointHeader& header_;
};

/// What a resumed run keeps of evaluations before: nothing of those by other metrics. \return a line on what it
/// forgets; empty: nothing
std::string keep_evaluations(const CheckpointHeader& stored, const Criteria& criteria, const models::Model& model,
                             CheckpointHeader& header);

}  // namespace unisono::experiment
