#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unisono/apply/trained_model.hpp"
#include "unisono/records/model_examples.hpp"

namespace unisono::apply {

/// How to read a trained model's outputs as classes; nothing if it does not predict classes.
std::optional<records::ClassReading> class_reading(const TrainedModel& model);
/// How to read the outputs of a model that was not trained yet as classes; nothing if it does not predict classes.
/// \param inputs facts about the data that the model is trained on \param has_targets false: the model's target is its
/// input
std::optional<records::ClassReading> class_reading(const models::Model& model, const models::ModelInputs& inputs,
                                                   bool has_targets);

/// Checks the user's threshold, if one was given. \throws ConfigError where the model does not tell two classes apart,
/// or its outputs cannot reach the threshold
void require_threshold(const TrainedModel& model);
/// What a model's threshold means: "the second class is predicted where its output is at least 0.3 (…)"; empty: there
/// is no threshold
std::string threshold_text(const TrainedModel& model);

/// The names of a model's classes, from the run or else from its training set; empty if they have none. Reads files:
/// call it on rank 0. \throws DataError if the names with which the run was trained are gone
std::vector<std::string> class_names_of(const TrainedModel& model, const ApplyOptions& options);

/// The names of the labels that a model predicts of each example, each for itself; empty: its outputs are something
/// else.
std::vector<std::string> label_names_of(const TrainedModel& model);

/// The known answers of a split's examples: labels, targets or ratings.
struct AnswerKind {
  std::string name;  ///< label, target or rating
  Index width = 0;   ///< values per example; 0: no answers
};
/// Which answers the split to which a model is applied has; width 0 if the targets are the features.
AnswerKind answer_kind(const TrainedModel& model);

}  // namespace unisono::apply
