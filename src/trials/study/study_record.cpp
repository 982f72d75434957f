#include "unisono/trials/study_record.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "unisono/records/counters_json.hpp"

namespace unisono::trials {
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
