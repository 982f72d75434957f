#include "report/worst.hpp"

#include <algorithm>
#include <cmath>

#include "apply/best.hpp"
#include "apply/figures/answers.hpp"

namespace unisono::experiment {
namespace {

std::unique_ptr<data::EvaluationSource> pass_over(TrainedModel& model) {
  return (*model.data)->evaluate(model.split, 0, 1, model.config.train.evaluation_batch_size, model.parts->delivery());
}

/// Of classes: how much of the probability goes elsewhere, or how far the label's margin is below the largest other.
double class_error(const ClassReading& reading, View outputs, float answer) {
  const auto label = static_cast<std::size_t>(answer);
  if (reading.outputs == 1) {
    const double wrong = answer > 0.5F ? -outputs[0] : outputs[0];
    return reading.probabilities && answer > 0.5F ? 1 + wrong : wrong;
  }
  if (label >= outputs.size()) return 0;
  if (reading.probabilities) return 1 - outputs[label];
  double largest = -std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < outputs.size(); ++k) {
    if (k != label) largest = std::max<double>(largest, outputs[k]);
  }
  return largest - outputs[label];
}

double distance(View outputs, View answer) {
  double squares = 0;
  for (std::size_t i = 0; i < std::min(outputs.size(), answer.size()); ++i) {
    squares += (outputs[i] - answer[i]) * (outputs[i] - answer[i]);
  }
  return std::sqrt(squares);
}

/// Outputs and answers of a whole split, row by row.
struct Predictions {
  std::vector<float> outputs, answers;
  std::size_t output_size, answer_size;

  View outputs_of(std::size_t i) const { return View(outputs).subspan(i * output_size, output_size); }
  View answer_of(std::size_t i) const { return View(answers).subspan(i * answer_size, answer_size); }
  std::size_t size() const { return answer_size == 0 ? 0 : answers.size() / answer_size; }
};

Predictions predictions_of(TrainedModel& model) {
  Predictions all{.outputs = {},
                  .answers = {},
                  .output_size = static_cast<std::size_t>(model.parts->model->output_size()),
                  .answer_size = static_cast<std::size_t>(answer_kind(model).width)};
  const auto source = pass_over(model);
  std::vector<float> rows;
  while (const auto batch = source->next()) {
    rows.resize(static_cast<std::size_t>(batch->size) * all.output_size);
    model.parts->model->predict(*batch, model.parts->state(), rows);
    all.outputs.insert(all.outputs.end(), rows.begin(), rows.end());
    const std::vector<float> answers = answers_of(*batch);
    all.answers.insert(all.answers.end(), answers.begin(), answers.end());
  }
  return all;
}

/// Another pass over the set, for the features of a few examples.
void add_features(TrainedModel& model, std::vector<WorstExample>& worst) {
  const auto source = pass_over(model);
  std::int64_t first = source->first();
  while (const auto batch = source->next()) {
    const auto width = batch->size > 0 ? batch->features.size() / static_cast<std::size_t>(batch->size) : 0;
    for (WorstExample& one : worst) {
      if (one.number < first || one.number >= first + batch->size) continue;
      const View features = batch->features.subspan(static_cast<std::size_t>(one.number - first) * width, width);
      one.features.assign(features.begin(), features.end());
    }
    first += batch->size;
  }
}

}  // namespace

std::string error_name(const TrainedModel& model) {
  const auto reading = class_reading(model);
  if (!reading) return "distance from the " + answer_kind(model).name;
  return reading->probabilities ? "1 − probability of the label" : "margin by which another class wins";
}

std::vector<WorstExample> worst_examples(TrainedModel& model, std::size_t count) {
  const Predictions all = predictions_of(model);
  const auto reading = class_reading(model);
  Best best(count);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double error = reading ? class_error(*reading, all.outputs_of(i), all.answer_of(i)[0])
                                 : distance(all.outputs_of(i), all.answer_of(i));
    best.offer({.row = static_cast<Index>(i), .score = error});
  }
  std::vector<WorstExample> worst;
  for (const auto& [row, error] : best.take()) {
    const auto i = static_cast<std::size_t>(row);
    const View outputs = all.outputs_of(i), answer = all.answer_of(i);
    worst.push_back({.number = row,
                     .answer = {answer.begin(), answer.end()},
                     .outputs = {outputs.begin(), outputs.end()},
                     .error = error,
                     .features = {}});
  }
  add_features(model, worst);
  return worst;
}

}  // namespace unisono::experiment
