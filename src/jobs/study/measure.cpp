#include "study/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "unisono/apply/answers.hpp"
#include "unisono/apply/trained_model.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/records/counters_json.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/session/evaluator.hpp"
#include "unisono/session/selection.hpp"

namespace unisono::jobs {
namespace {

constexpr std::int64_t kMostPredictions = 10000;

std::string names_of(const std::vector<models::Metric>& metrics) {
  std::string names;
  for (const models::Metric& metric : metrics) names += (names.empty() ? "" : ", ") + metric.name;
  return names;
}

std::vector<float> parameters_without_state(const session::ModelParts& parts) {
  const View values = parts.parameters.view();
  std::vector<float> kept;
  for (const Block& block : parts.model->layout().blocks()) {
    if (block.role == Role::state || block.size() == 0) continue;
    const std::size_t before = kept.size();
    kept.resize(before + static_cast<std::size_t>(block.size()));
    const View stored =
        values.subspan(static_cast<std::size_t>(block.offset), static_cast<std::size_t>(block.stored_size()));
    to_canonical(block, stored, MutableView(kept).subspan(before));
  }
  return kept;
}

std::vector<float> predictions_of(apply::TrainedModel& model) {
  std::vector<float> predictions;
  const data::SetKind kind = (*model.data)->info().kind;
  if (kind == data::SetKind::text || kind == data::SetKind::cooccurrences) return predictions;
  session::ModelParts& parts = *model.parts;
  const auto source =
      (*model.data)->evaluate(model.split, 0, 1, model.config.train.evaluation_batch_size, parts.delivery());
  const auto outputs = static_cast<std::size_t>(parts.model->output_size());
  for (std::int64_t done = 0; done < kMostPredictions;) {
    const auto batch = source->next();
    if (!batch) break;
    std::vector<float> rows(static_cast<std::size_t>(batch->size) * outputs);
    parts.model->predict(*batch, parts.state(), rows);
    predictions.insert(predictions.end(), rows.begin(), rows.end());
    done += batch->size;
  }
  return predictions;
}

double value_of(const std::vector<models::Metric>& metrics, const std::string& name) {
  const auto found = std::ranges::find(metrics, name, &models::Metric::name);
  return found == metrics.end() ? trials::kUnknown : found->value;
}

/// R(θ) of the serial run's objective.
double penalty_of(apply::TrainedModel& model, const optim::OptimizerSettings& optimizer) {
  session::ModelParts& parts = *model.parts;
  const models::Objective objective(*parts.model, *parts.backend, **model.data,
                                    {.weight_decay = optimizer.weight_decay,
                                     .decay_biases_and_norms = optimizer.decay_biases_and_norms,
                                     .delivery = parts.delivery()});
  const View values = parts.parameters.view();
  double sum = 0;
  for (const models::PenalisedRange& one : objective.penalties()) {
    for (Index i = one.range.first; i < one.range.last; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      sum += one.l1 * std::abs(value) + 0.5 * one.l2 * value * value;
    }
  }
  return sum;
}

}  // namespace

trials::StudyMetric metric_of(const settings::Config& config, const std::string& wanted) {
  const data::DatasetInfo data = data::inspect_dataset(config.data);
  if (wanted == "auto") {
    const data::Split split = session::watched_split(data);
    if (session::examples_of(data, split) == 0) {
      throw ConfigError(
          config.data.path +
          " has neither validation nor test examples, by which a study could compare; hold some back with "
          "data.validation_fraction = 0.1");
    }
    const models::Metric metric = session::decisive(session::possible_metrics(config, data, split));
    return {split, metric.name, metric.larger_is_better};
  }
  const std::size_t dot = wanted.find('.');
  const auto split = std::ranges::find(data::kSplits, wanted.substr(0, dot), [](data::Split s) { return name_of(s); });
  const std::string what = fmt::format("study.metric = \"{}\"", wanted);
  if (dot == std::string::npos || split == data::kSplits.end())
    throw ConfigError(what + ": a set and a metric are expected, as in \"validation.accuracy\", \"test.loss\"");
  if (session::examples_of(data, *split) == 0) {
    throw ConfigError(fmt::format("{}: {} has no {} examples", what, config.data.path, data::name_of(*split)));
  }
  const std::vector<models::Metric> metrics = session::possible_metrics(config, data, *split);
  const auto metric = std::ranges::find(metrics, wanted.substr(dot + 1), &models::Metric::name);
  if (metric == metrics.end())
    throw ConfigError(fmt::format("{}: this model has no such metric; it has {}", what, names_of(metrics)));
  return {*split, metric->name, metric->larger_is_better};
}

MeasuredModel measure(const std::string& run, const trials::StudyMetric& metric, const trials::Variant* serial,
                      Log& log) {
  const auto self = comm::make_self_communicator();
  apply::ApplyOptions options;
  options.model = run;
  options.split = data::name_of(metric.split);
  apply::TrainedModel model(*self, options, log);
  const auto metrics = session::evaluate_split(*model.parts, **model.data, metric.split, model.config);
  MeasuredModel measured{.parameters = parameters_without_state(*model.parts),
                         .predictions = predictions_of(model),
                         .outputs = model.parts->model->output_size(),
                         .classes = apply::class_reading(model),
                         .value = value_of(metrics, metric.name),
                         .loss = value_of(metrics, "loss"),
                         .train = (*model.data)->info().train};
  if (serial != nullptr && model.parts->model->convex() != nullptr) {
    const auto train = session::evaluate_split(*model.parts, **model.data, data::Split::train, model.config);
    measured.objective = value_of(train, "loss") + penalty_of(model, serial->config.optimizer);
  }
  return measured;
}

namespace {

void compare_parameters(View own, View other, trials::ModelDistance& distance) {
  double squares = 0, norm = 0;
  distance.largest = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double value = other[i], difference = own[i] - value;
    distance.different += std::bit_cast<std::uint32_t>(own[i]) == std::bit_cast<std::uint32_t>(other[i]) ? 0 : 1;
    squares += difference * difference;
    norm += value * value;
    distance.largest = std::max(distance.largest, std::abs(difference));
  }
  distance.relative = squares == 0 ? 0 : std::sqrt(squares / norm);
}

void compare_predictions(const MeasuredModel& model, const MeasuredModel& other, trials::ModelDistance& distance) {
  const View own = model.predictions, theirs = other.predictions;
  if (own.empty() || own.size() != theirs.size()) return;
  double squares = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const double difference = static_cast<double>(own[i]) - theirs[i];
    squares += difference * difference;
  }
  distance.predictions = std::sqrt(squares / static_cast<double>(own.size()));
  if (!model.classes) return;
  const auto outputs = static_cast<std::size_t>(model.outputs);
  std::int64_t changed = 0;
  for (std::size_t i = 0; i < own.size(); i += outputs) {
    const bool same =
        model.classes->class_of(own.subspan(i, outputs)) == model.classes->class_of(theirs.subspan(i, outputs));
    changed += same ? 0 : 1;
  }
  distance.classes = static_cast<double>(changed) / static_cast<double>(own.size() / outputs);
}

}  // namespace

trials::ModelDistance distance_between(const MeasuredModel& model, const MeasuredModel& other) {
  trials::ModelDistance distance;
  if (model.parameters.size() != other.parameters.size() || model.outputs != other.outputs) return distance;
  distance.known = true;
  compare_parameters(model.parameters, other.parameters, distance);
  compare_predictions(model, other, distance);
  return distance;
}

MeasuredCourse course_of(const std::string& run, const trials::StudyMetric& metric, double examples_per_step) {
  MeasuredCourse course;
  Seconds& sum = course.seconds;
  records::MetricsReader reader(run);
  while (const auto line = reader.next()) {
    const nlohmann::ordered_json json = line->fields();
    if (json.value("event", "") == "train" && json.contains("seconds")) {
      sum += records::seconds_from(json["seconds"]);
    } else if (json.value("event", "") == "evaluation" && json.value("split", "") == data::name_of(metric.split) &&
               !json.contains("weights_of_step")) {
      const auto value = json.value(metric.name, nlohmann::json());
      const double step = json.value("step", 0.0);
      course.curve.push_back({.updates = step,
                              .examples = step * examples_per_step,
                              .seconds = sum.sum() - sum.evaluation - sum.checkpoint,
                              .value = value.is_number() ? value.get<double>() : trials::kUnknown});
    }
  }
  return course;
}

}  // namespace unisono::jobs
