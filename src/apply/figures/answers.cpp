#include "unisono/apply/answers.hpp"

#include <fmt/format.h>

#include <cmath>

#include "unisono/base/errors.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/run_checks.hpp"

namespace unisono::apply {

std::optional<records::ClassReading> class_reading(const TrainedModel& model) {
  const bool has_values =
      model.config.data.targets != data::Targets::features && model.checkpoint.header.preprocessing.label_names.empty();
  auto reading = class_reading(*model.parts->model, model.checkpoint.header.inputs, has_values);
  if (reading) reading->threshold = model.threshold;
  return reading;
}

std::optional<records::ClassReading> class_reading(const models::Model& model, const models::ModelInputs& inputs,
                                                   bool has_targets) {
  const Index outputs = model.output_size();
  const bool fits_classes = outputs == inputs.classes || (outputs == 1 && inputs.classes == 2);
  const bool is_question = inputs.target_size == 1 && outputs == 1 && has_targets;  // yes or no, answered by targets
  if (inputs.classes > 0 ? !fits_classes : !is_question) return std::nullopt;
  return session::class_reading(model, /*labels=*/true);
}

void require_threshold(const TrainedModel& model) {
  if (!model.threshold_is_given) return;
  const auto reading = class_reading(model);
  if (!reading || reading->classes != 2) {
    throw ConfigError(
        fmt::format("--threshold: {} does not tell two classes apart; leave it out", model.checkpoint.path));
  }
  const double threshold = *model.threshold;
  const bool is_possible = reading->probabilities ? threshold >= 0 && threshold <= 1 : std::isfinite(threshold);
  if (is_possible) return;
  throw ConfigError(fmt::format("--threshold {}: {}", threshold,
                                reading->probabilities ? "probabilities are between 0 and 1" : "it is no number"));
}

std::string threshold_text(const TrainedModel& model) {
  const auto reading = class_reading(model);
  if (!reading || !reading->threshold || reading->classes != 2) return "";
  return fmt::format("the second class is predicted where its output is at least {:.4g} ({})", *reading->threshold,
                     model.threshold_is_given
                         ? "--threshold"
                         : fmt::format("chosen by validation {}", model.config.train.threshold_by));
}

std::vector<std::string> class_names_of(const TrainedModel& model, const ApplyOptions& options) {
  if (model.checkpoint.header.names == 0) {  // the training set had no names, or an earlier version did not keep them
    return options.data.empty() && model.data ? (*model.data)->class_names() : std::vector<std::string>{};
  }
  const data::Dictionary dictionary = session::dictionary_of(model.checkpoint, model.config);
  const data::NameTable* const classes = data::find_table(dictionary, "classes");
  return classes == nullptr ? std::vector<std::string>{} : classes->names;
}

std::vector<std::string> label_names_of(const TrainedModel& model) {
  const std::vector<std::string>& names = model.checkpoint.header.preprocessing.label_names;
  const models::Model& applied = *model.parts->model;
  const bool are_labels = model.config.data.targets != data::Targets::features &&
                          applied.prediction() == models::Prediction::probabilities &&
                          applied.output_size() == std::ssize(names);
  return are_labels ? names : std::vector<std::string>{};
}

AnswerKind answer_kind(const TrainedModel& model) {
  const data::DatasetInfo& info = (*model.data)->info();
  const data::TargetForm& answers = info.targets[static_cast<std::size_t>(model.split)];
  if (info.kind == data::SetKind::ratings) return {.name = "rating", .width = 1};
  if (answers.labels && !label_names_of(model).empty()) return {};  // a class is none of the labels
  if (answers.labels) return {.name = "label", .width = 1};
  if (answers.target_size > 0 && model.config.data.targets != data::Targets::features) {
    return {.name = "target", .width = answers.target_size};
  }
  return {};
}

}  // namespace unisono::apply
