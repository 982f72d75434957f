#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apply/figures/class_reading.hpp"
#include "apply/trained_model.hpp"

namespace unisono::experiment {

/// Nothing where the model does not tell classes apart.
std::optional<ClassReading> class_reading(const TrainedModel& model);

/// What the classes are called, by the run, or where it does not say by the set that it was trained on; empty: they
/// have no names. Reads files: for rank 0. \throws DataError where the names that the run was trained with are gone
std::vector<std::string> class_names_of(const TrainedModel& model, const ApplyOptions& options);

/// What the examples of a split are to be compared with.
struct AnswerKind {
  std::string name;  ///< label, target, rating
  Index width = 0;   ///< values of an example; 0: none
};
/// Of the split that a model is applied to: nothing where the targets are the features.
AnswerKind answer_kind(const TrainedModel& model);

/// A batch's class numbers, targets or ratings. \return [B, width]; empty where it has none
std::vector<float> answers_of(const data::Batch& batch);

}  // namespace unisono::experiment
