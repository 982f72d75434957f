#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "unisono/models/model.hpp"
#include "unisono/records/class_figures.hpp"
#include "unisono/tensor/allocator.hpp"

// Figures of models that predict several labels of an example, each for itself.
namespace unisono::records {

/// Counts for each of K labels how many examples have it, how many are predicted to have it, and how many both.
///   What 0/0 would be is undefined, and NaN: the precision of a label that is never predicted, the recall of one that
///   no example has, F1 where neither happens. Means leave it out, as scikit-learn's do with zero_division=nan.
class MultilabelCounts {
 public:
  explicit MultilabelCounts(Index labels) : labels_(labels), counts_(static_cast<std::size_t>(3 * labels)) {}

  /// Adds an example. A label is predicted where its probability is above ½. \param targets [K], each 0 or 1
  void add(View probabilities, View targets);
  /// All counts in one vector, for an allreduce over ranks.
  std::span<std::int64_t> counts() { return counts_; }

  Index labels() const { return labels_; }
  std::int64_t support(Index label) const { return counts_[static_cast<std::size_t>(label)]; }
  ClassFigures of(Index label) const;
  ClassFigures macro_mean() const;  ///< means over the labels of those figures that are defined
  ClassFigures micro_mean() const;  ///< figures of the sums of all labels' counts

 private:
  std::int64_t predicted(Index label) const { return counts_[static_cast<std::size_t>(labels_ + label)]; }
  std::int64_t hits(Index label) const { return counts_[static_cast<std::size_t>(2 * labels_ + label)]; }

  Index labels_;
  std::vector<std::int64_t> counts_;  ///< [K] examples with the label, [K] predictions, [K] hits
};

/// How well a model predicts several labels, beyond the loss and the share of examples of which all are right.
struct MultilabelFigures {
  MultilabelCounts counts;
  std::vector<RankingFigures> ranking = {};  ///< [K] ranking of the examples by each label's probability; or empty
  std::vector<RankingCurves> curves = {};    ///< [K] curves of `ranking`; empty if they were not wanted
};

/// The metrics that follow from figures: auc, average_precision, precision, recall and f1 are means over the labels,
/// f1_micro is of all together. Undefined metrics are left out.
std::vector<models::Metric> metrics_of(const MultilabelFigures& figures);
/// All metrics that models of several labels may have.
std::vector<models::Metric> possible_multilabel_metrics();

}  // namespace unisono::records
