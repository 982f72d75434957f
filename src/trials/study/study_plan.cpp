#include "unisono/trials/study_plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "unisono/records/counters_json.hpp"

namespace unisono::trials {

std::string StudyPlan::run_folder(const StudyTraining& training) const {
  return fmt::format("{}/runs/{}/seed-{}", folder, training.variant->folder, training.seed);
}

std::vector<StudyTraining> trainings_of(const StudyPlan& plan) {
  std::vector<StudyTraining> trainings;
  if (plan.optimum) trainings.push_back({&*plan.optimum, plan.first_seed});
  for (std::int64_t seed = plan.first_seed; seed < plan.first_seed + plan.settings.seeds; ++seed) {
    for (const Variant& variant : plan.variants) trainings.push_back({&variant, seed});
  }
  return trainings;
}

const StudyRecord* find_record(const std::vector<StudyRecord>& records, const StudyTraining& training) {
  const auto found = std::ranges::find_if(records, [&](const StudyRecord& record) {
    return record.variant == training.variant->identity && record.seed == training.seed;
  });
  return found == records.end() ? nullptr : &*found;
}

std::optional<records::TrialRun> StudyProgress::next() const {
  const auto missing = running_ || begins_no_more_ ? std::nullopt : first_missing();
  return missing ? std::optional(records::TrialRun{.trial = *missing}) : std::nullopt;
}

std::optional<std::int64_t> StudyProgress::first_missing() const {
  const auto found = std::ranges::find_if(
      trainings_, [&](const StudyTraining& training) { return find_record(records_, training) == nullptr; });
  return found == trainings_.end() ? std::nullopt : std::optional<std::int64_t>(found - trainings_.begin());
}

namespace {

nlohmann::json known(double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); }

double number(const nlohmann::json& json) { return json.is_null() ? kUnknown : json.get<double>(); }

nlohmann::json distance_json(const ModelDistance& distance) {
  if (!distance.known) return {};
  return {{"different_parameters", distance.different},
          {"relative", known(distance.relative)},
          {"largest", known(distance.largest)},
          {"predictions", known(distance.predictions)},
          {"classes", known(distance.classes)}};
}

ModelDistance distance_from(const nlohmann::json& json) {
  if (json.is_null()) return {};
  return {.known = true,
          .different = json.at("different_parameters"),
          .relative = number(json.at("relative")),
          .largest = number(json.at("largest")),
          .predictions = number(json.at("predictions")),
          .classes = number(json.at("classes"))};
}

}  // namespace

nlohmann::json to_json(const StudyRecord& record) {
  nlohmann::json curve = nlohmann::json::array();
  for (const CurvePoint& point : record.curve)
    curve.push_back({point.updates, point.examples, point.seconds, known(point.value)});
  return {{"way", record.variant},
          {"seed", record.seed},
          {"diverged", record.diverged},
          {"message", record.message},
          {"value", known(record.value)},
          {"loss", known(record.loss)},
          {"objective", known(record.objective)},
          {"steps", record.steps},
          {"examples", record.examples},
          {"seconds", nlohmann::json(records::to_json(record.seconds))},
          {"curve", curve},
          {"distance", distance_json(record.distance)}};
}

StudyRecord study_record_from(const nlohmann::json& json) {
  StudyRecord record{.variant = json.at("way"),
                     .seed = json.at("seed"),
                     .diverged = json.at("diverged"),
                     .message = json.at("message"),
                     .value = number(json.at("value")),
                     .loss = number(json.at("loss")),
                     .objective = number(json.at("objective")),
                     .steps = json.at("steps"),
                     .examples = json.at("examples"),
                     .seconds = records::seconds_from(json.at("seconds")),
                     .distance = distance_from(json.at("distance"))};
  for (const nlohmann::json& point : json.at("curve"))
    record.curve.push_back({point.at(0), point.at(1), point.at(2), number(point.at(3))});
  return record;
}

}  // namespace unisono::trials
