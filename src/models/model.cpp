#include "unisono/models/model.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <variant>

#include "unisono/base/errors.hpp"

namespace unisono::models {

bool is_metric(std::string_view name) {
  return std::ranges::find(kMetricKinds, name, &MetricKind::name) != std::end(kMetricKinds);
}

Metric metric_of(std::string_view name, double value) {
  const auto* const kind = std::ranges::find(kMetricKinds, name, &MetricKind::name);
  if (kind == std::end(kMetricKinds)) throw std::logic_error("a metric is not in the table: " + std::string(name));
  return {std::string(name), value, kind->larger_is_better, kind->usual};
}

bool is_usual(std::string_view name) {
  const auto* const kind = std::ranges::find(kMetricKinds, name, &MetricKind::name);
  return kind == std::end(kMetricKinds) || kind->usual;
}

namespace {

struct OtherName {
  std::string_view name, metric;
};
/// Only two classes have macro means beside the figures of the second class.
constexpr OtherName kOtherNames[] = {{"roc_auc", "auc"},
                                     {"precision_macro", "precision"},
                                     {"recall_macro", "recall"},
                                     {"f1_macro", "f1"},
                                     {"brier", "brier_score"},
                                     {"calibration_error", "expected_calibration_error"},
                                     {"ece", "expected_calibration_error"}};

}  // namespace

bool means_metric(std::string_view text) {
  return is_metric(text) || std::ranges::find(kOtherNames, text, &OtherName::name) != std::end(kOtherNames);
}

const Metric* find_metric(const std::vector<Metric>& metrics, std::string_view name) {
  const auto found = std::ranges::find(metrics, name, &Metric::name);
  if (found != metrics.end()) return &*found;
  const auto* const other = std::ranges::find(kOtherNames, name, &OtherName::name);
  return other == std::end(kOtherNames) ? nullptr : find_metric(metrics, other->metric);
}

std::vector<float> answers_of(const data::Batch& batch) {
  if (batch.set == nullptr) {
    if (!batch.labels.empty()) return {batch.labels.begin(), batch.labels.end()};
    return {batch.targets.begin(), batch.targets.end()};
  }
  std::vector<float> answers;
  for (const data::ExampleRange& range : batch.ranges) {
    if (const auto* const rows = std::get_if<data::LabelledRows>(batch.set)) {
      if (rows->targets.empty()) continue;
      answers.insert(answers.end(), rows->targets.begin() + range.first, rows->targets.begin() + range.last);
    } else if (const auto* const entries = std::get_if<data::SparseEntries>(batch.set)) {
      for (auto i = range.first; i < range.last; ++i) answers.push_back((*entries)[static_cast<std::size_t>(i)].value);
    }
  }
  return answers;
}

void Model::evaluate_predictions(const data::Batch& batch, ModelState state, kernels::LossSums& sums,
                                 PredictionReader& reader) {
  evaluate(batch, state, sums);
  std::vector<float> rows(static_cast<std::size_t>(batch.size * output_size()));
  predict(batch, state, rows);
  reader.read(rows, answers_of(batch), {});
}

void Model::initialise_held(std::uint64_t seed, const HeldModel& held, ModelState state) const {
  if (!held.parameters.held_by_all())
    throw std::logic_error("a model of which a rank holds a part needs initialise_held");
  initialise(seed, state);
}

void Model::predict_layer(const std::string&) {
  throw ConfigError("--layer: only networks (model.kind = \"network\") have layers whose outputs can be written");
}

}  // namespace unisono::models
