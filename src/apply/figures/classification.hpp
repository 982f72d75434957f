#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "figures/calibration.hpp"
#include "figures/ranking.hpp"
#include "unisono/apply/answers.hpp"
#include "unisono/records/confusion.hpp"

namespace unisono::apply {

/// How well a classifier does on a split, beyond loss and accuracy.
struct ClassificationFigures {
  records::ConfusionMatrix matrix;
  std::optional<Calibration> calibration;  ///< if it predicts probabilities
  /// With two classes: for the second one; with more: for each class against the rest. Empty if there are too many
  /// examples.
  std::vector<RankingFigures> ranking;

  /// Mean over the classes that have both positive and negative examples; NaN if there are none.
  RankingFigures mean_ranking() const;
};

/// Predicts a split and computes the figures; the ranks divide the examples. A rank keeps the scores of its own
/// examples, n/P · K floats, and for one class at a time those of all examples; above 2²⁸ own scores, `ranking` stays
/// empty. Collective. \return nothing if the answers are not classes (targets other than 0 and 1)
std::optional<ClassificationFigures> classify_split(TrainedModel& model, comm::Communicator& replicas,
                                                    const records::ClassReading& reading);

/// Flat keys: precision_macro, roc_auc, …; classes, confusion_matrix and calibration are lists.
nlohmann::ordered_json to_json(const ClassificationFigures& figures, const std::vector<std::string>& names);
/// Indented lines; figures of each class only if there are at most 20 classes.
std::vector<std::string> to_text(const ClassificationFigures& figures, const std::vector<std::string>& names);

}  // namespace unisono::apply
