#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/apply/trained_model.hpp"
#include "unisono/records/model_examples.hpp"

namespace unisono::apply {

/// How to read the model's outputs as classes; nothing if it does not predict classes.
std::optional<records::ClassReading> class_reading(const TrainedModel& model);
/// Likewise of a model that was not trained yet. \param inputs of what it is trained on \param has_targets false: its
/// target is its input
std::optional<records::ClassReading> class_reading(const models::Model& model, const models::ModelInputs& inputs,
                                                   bool has_targets);

/// Checks a threshold that was given. \throws ConfigError where the model has none, or its outputs do not reach it
void require_threshold(const TrainedModel& model);
/// "the second class is predicted where its output is at least 0.3 (…)"; empty: there is no threshold
std::string threshold_text(const TrainedModel& model);

/// The names of the classes, from the run or else from its training set; empty if they have none. Reads files: call it
/// on rank 0. \throws DataError if the names with which the run was trained are gone
std::vector<std::string> class_names_of(const TrainedModel& model, const ApplyOptions& options);

/// The known answers of a split's examples: labels, targets or ratings.
struct AnswerKind {
  std::string name;  ///< label, target, rating
  Index width = 0;   ///< values per example; 0: no answers
};
/// The answers of the split to which a model is applied; none if the targets are the features.
AnswerKind answer_kind(const TrainedModel& model);

}  // namespace unisono::apply
