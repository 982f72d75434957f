#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/records/multilabel_figures.hpp"
#include "unisono/session/checkpoint.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// Evaluates a model on a split; the ranks divide the examples, and each is counted once. Collective.
///   Classifiers have figures of their predictions, except on the training examples. Figures that take
///   probabilities or rank examples cost time, those that rank examples memory, too. They are computed for up to 2²⁶
///   examples of two classes and, for more classes, up to 2²⁰ scores (examples × classes); for larger splits only if
///   they are wanted.
/// \param config says how many examples a batch has, and whether sums are to be reproducible
/// \param wanted names of metrics that are computed whatever they cost, besides those of wanted_metrics
/// Models of several labels have figures likewise.
/// \return loss first, then the metrics of the model's kind; the same on every rank
std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           const settings::Config& config, const std::vector<std::string>& wanted = {});

/// How to read a model's outputs as classes; nothing if it does not predict classes.
/// \param labels whether the examples have classes, not targets
std::optional<records::ClassReading> class_reading(const models::Model& model, bool labels);

/// How many labels the model predicts of each example, each for itself; 0: its outputs are something else.
Index label_count(const models::Model& model, const data::DatasetInfo& data);

/// All that an evaluation finds out.
struct SplitFigures {
  std::vector<models::Metric> metrics;  ///< metrics, as evaluate_split returns them
  bool undefined = false;               ///< whether nothing was measured, so that the metrics are NaN
  std::optional<records::ClassificationFigures> classes = {};  ///< figures of classifiers
  std::optional<records::MultilabelFigures> labels = {};       ///< figures of models of several labels
  /// The threshold that the config asks for, chosen on validation examples.
  std::optional<records::ChosenThreshold> threshold = {};
};
/// Evaluates a split as evaluate_split does; on the validation examples it also chooses the threshold
/// (train.threshold_by). Collective.
///   `stop` is asked before each batch. Where it returns true on a rank, there are no figures, on all ranks, as soon as
///   the other ranks have ended their parts. Where several ranks hold one model, `stop` is not asked.
std::optional<SplitFigures> evaluate_of_run(ModelParts& parts, data::Dataset& data, data::Split split,
                                            const settings::Config& config, const std::function<bool()>& stop);
/// Evaluates a split with all figures of classes. Areas under curves are left out where a rank would have to keep more
/// than 2²⁸ scores. With a threshold, the accuracy is that of the classes that the threshold predicts. Collective.
/// \param reading nothing: the outputs are no classes \param curves whether the curves are wanted, too
SplitFigures evaluate_with_figures(ModelParts& parts, data::Dataset& data, data::Split split,
                                   const settings::Config& config, const std::optional<records::ClassReading>& reading,
                                   bool curves = false);

/// The names of the metrics that a config asks for on a split: to show them, or to decide by them.
std::vector<std::string> wanted_metrics(const settings::Config& config, data::Split split);

/// Whether the training examples say nothing about any example of a split, so that its metrics are undefined: all are
/// of classes without training examples; or are ratings of users and items without training ratings (for a model
/// without biases: of a user or an item without training ratings); or are text without pairs of words. Not collective.
/// \throws DataError
bool is_undefined(const settings::Config& config, const models::Model& model, data::Dataset& data, data::Split split);

/// A message about examples of which the training examples say nothing: "11 of 20 test examples are of …", with what
/// that means for the metrics; empty: training examples say something about all of the split. Not collective. \param
/// class_names names of the model's classes, or empty \throws DataError
std::string unseen_text(const settings::Config& config, const models::Model& model, data::Dataset& data,
                        data::Split split, const std::vector<std::string>& class_names);

/// Unseen examples as JSON, for summary.json and the figures of an evaluation.
nlohmann::ordered_json to_json(const data::Unseen& unseen);

/// How many examples a split has.
std::int64_t examples_of(const data::DatasetInfo& info, data::Split split);

/// The split that a run evaluates during training: validation, or test if there is no validation set.
data::Split watched_split(const data::DatasetInfo& info);

/// Sums of losses over a group's ranks. Collective; one message.
kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums);

/// The metric by which models are compared: the accuracy if there is one, otherwise the loss.
const models::Metric& decisive(const std::vector<models::Metric>& metrics);
/// Whether `value` beats `best`, in the metric's own sense. NaN never does.
bool is_better(const models::Metric& metric, double best);

// Decisions from a run's evaluations: which checkpoint is the best, and whether to stop early.

/// The names of metrics as text: "loss, accuracy, auc".
std::string metric_names(const std::vector<models::Metric>& metrics);

/// A metric on a split: "validation accuracy".
struct Criterion {
  data::Split split = data::Split::validation;
  std::string metric;
  std::string text() const { return std::string(data::name_of(split)) + " " + metric; }
};

/// The criteria of a config, for the best checkpoint and for early stopping; empty: there is no best checkpoint, or no
/// early stopping.
struct Criteria {
  std::optional<Criterion> best, stopping;
};

/// All metrics that a model may have on a split. \param data what the examples are
std::vector<models::Metric> possible_metrics(const models::Model& model, data::Split split,
                                             const data::DatasetInfo& data);
/// All metrics that the model that a config would train on these data may have on a split. \throws ConfigError for a
/// model that does not fit the data
std::vector<models::Metric> possible_metrics(const settings::Config& config, const data::DatasetInfo& data,
                                             data::Split split);

/// The metrics that a model may have on a split, but not where all examples have this class, or the same targets:
/// AUC, R²; F1 of the second of two classes where all are of the first. \param data what the examples are
std::vector<std::string> undefined_metrics(const models::Model& model, data::Split split, const data::DatasetInfo& data,
                                           const data::CommonAnswer& common);

/// The criteria of a config. \throws ConfigError for a metric that the model does not have, naming those that it has,
/// and for a split without examples
Criteria criteria_of(const settings::Config& config, const models::Model& model, const data::DatasetInfo& data);

/// A log line at a run's start if no best checkpoint can be kept; else empty.
std::string note_on_best(const settings::Config& config, const data::DatasetInfo& data);

/// Compares evaluations with earlier ones. Called with the same arguments on all ranks, with the same results.
class Selection {
 public:
  /// \param header holds the state in `best`, `best_by` and `stopping_by`, restored for a resumed run; must outlive
  /// this object
  Selection(Criteria criteria, const settings::EarlyStoppingSettings& stopping, CheckpointHeader& header);

  /// Whether a split must be evaluated for the selection.
  bool needs(data::Split split) const;
  /// Returns the metrics of a split after header.step; null if it was not evaluated.
  using MetricsOf = std::function<const std::vector<models::Metric>*(data::Split)>;
  /// Takes in the evaluations after a step. \return whether this is the best model so far, so that it should be kept
  bool judge(const MetricsOf& metrics_of);
  /// The metrics that the last call of `judge` needed and did not find, because they are undefined for these examples:
  /// "validation auc". An evaluation with an undefined metric is not the best one and, once the metric was defined, no
  /// improvement.
  const std::string& undefined() const { return undefined_; }
  /// Whether the last `patience` evaluations brought no improvement.
  bool wants_to_stop() const { return criteria_.stopping && header_.stopping_by.waited >= settings_.patience; }
  const Criteria& criteria() const { return criteria_; }

 private:
  bool judge_best(const models::Metric& metric);
  void judge_stopping(const models::Metric& metric);

  Criteria criteria_;
  settings::EarlyStoppingSettings settings_;
  CheckpointHeader& header_;
  std::string undefined_;
};

/// Takes the best evaluations from a stored header into a resumed run's, unless they used another metric. \return a log
/// line on what is dropped; empty if nothing is
std::string keep_evaluations(const CheckpointHeader& stored, const Criteria& criteria, const models::Model& model,
                             CheckpointHeader& header);

}  // namespace unisono::session
