#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apply/figures/answers.hpp"
#include "apply/figures/calibration.hpp"
#include "apply/figures/confusion.hpp"
#include "apply/figures/ranking.hpp"

namespace unisono::experiment {

/// What a classifier is worth on a split, beside loss and accuracy.
struct ClassificationFigures {
  ConfusionMatrix matrix;
  std::optional<Calibration> calibration;  ///< of probabilities
  /// Two classes: of the second one; more: of each class against the rest. Empty where there are too many examples.
  std::vector<RankingFigures> ranking;

  /// Over the classes that have both examples of their own and others; NaN where there are none.
  RankingFigures mean_ranking() const;
};

/// Predicts a split, each example once over all ranks, and counts. A rank keeps the scores of its own examples, n/P · K
/// floats, and those of all of them for one class at a time; above 2²⁸ of its own it ranks nothing. Collective.
/// \return nothing where the answers are no classes (targets other than 0 and 1)
std::optional<ClassificationFigures> classify_split(TrainedModel& model, comm::Communicator& replicas,
                                                    const ClassReading& reading);

/// Flat keys: precision_macro, roc_auc, …; classes, confusion_matrix and calibration are lists.
nlohmann::ordered_json to_json(const ClassificationFigures& figures, const std::vector<std::string>& names);
/// Indented lines; what concerns each class only where there are 20 of them at most.
std::vector<std::string> to_text(const ClassificationFigures& figures, const std::vector<std::string>& names);

}  // namespace unisono::experiment
