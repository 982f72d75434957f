#include "unisono/records/trial_run.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace unisono::records {
namespace {

using nlohmann::json;

/// JSON has no numbers that are not finite: these become texts.
json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_from(const json& value) {
  if (value.is_number()) return value.get<double>();
  const double infinite = std::numeric_limits<double>::infinity();
  const auto& text = value.get_ref<const std::string&>();
  return text == "inf" ? infinite : text == "-inf" ? -infinite : std::numeric_limits<double>::quiet_NaN();
}

template <typename Enum>
Enum value_called(const std::string& name, NamesOf<Enum> names) {
  for (const auto& one : names) {
    if (one.name == name) return one.value;
  }
  throw json::other_error::create(501, "unknown name '" + name + "'", nullptr);
}

data::Split split_called(const std::string& name) {
  for (const data::Split split : data::kSplits) {
    if (data::name_of(split) == name) return split;
  }
  throw json::other_error::create(501, "unknown split '" + name + "'", nullptr);
}

}  // namespace

std::string TrialRun::text() const {
  const std::string where = is_nested() ? fmt::format("outer fold {}, ", outer) : "";
  if (refit) return where + fmt::format("trial {} once more", trial);
  return where + fmt::format("trial {}", trial) + (repeat > 0 ? fmt::format(", repeat {}", repeat) : "") +
         (fold >= 0 ? fmt::format(", fold {}", fold) : "");
}

double TrialResult::loss() const {
  if (status != TrialStatus::complete || std::isnan(value)) return std::numeric_limits<double>::infinity();
  return larger_is_better ? -value : value;
}

json to_json(const TrialRun& training) {
  json made = {{"trial", training.trial}};
  if (training.repeat != 0) made["repeat"] = training.repeat;
  if (training.outer >= 0) made["outer"] = training.outer;
  if (training.fold >= 0) made["fold"] = training.fold;
  if (training.epochs > 0) made["epochs"] = training.epochs;
  if (training.copied) made["copied"] = *training.copied;
  if (training.refit) made["refit"] = true;
  return made;
}

TrialRun trial_run_from(const json& json) {
  TrialRun training;
  training.trial = json.at("trial").get<std::int64_t>();
  training.repeat = json.value("repeat", std::int64_t{0});
  training.outer = json.value("outer", std::int64_t{-1});
  training.fold = json.value("fold", std::int64_t{-1});
  training.epochs = json.value("epochs", std::int64_t{0});
  training.refit = json.value("refit", false);
  if (json.contains("copied")) training.copied = json.at("copied").get<std::int64_t>();
  return training;
}

json to_json(const TrialTask& task) {
  return {{"training", to_json(task.run)}, {"overrides", task.overrides}, {"folder", task.folder},
          {"goes_on", task.goes_on},       {"outputs", task.outputs},     {"takes_over", task.takes_over}};
}

TrialTask task_from(const json& json) {
  TrialTask task;
  task.run = trial_run_from(json.at("training"));
  task.overrides = json.at("overrides").get<std::vector<std::string>>();
  task.folder = json.at("folder").get<std::string>();
  task.goes_on = json.at("goes_on").get<bool>();
  task.outputs = json.at("outputs").get<std::string>();
  task.takes_over = json.at("takes_over").get<bool>();
  return task;
}

json to_json(const TrialResult& result) {
  json metrics = json::array();
  for (const MeasuredMetric& metric : result.metrics) {
    metrics.push_back({data::name_of(metric.split), metric.name, number(metric.value), metric.larger_is_better});
  }
  return {{"status", name_of(result.status, kTrialStatuses)},
          {"message", result.message},
          {"value", number(result.value)},
          {"larger_is_better", result.larger_is_better},
          {"metrics", metrics},
          {"epochs", result.epochs},
          {"steps", result.steps},
          {"kept_epochs", result.kept_epochs},
          {"seconds", result.seconds}};
}

TrialResult result_from(const json& json) {
  TrialResult result;
  result.status = value_called<TrialStatus>(json.at("status").get<std::string>(), kTrialStatuses);
  result.message = json.at("message").get<std::string>();
  result.value = number_from(json.at("value"));
  result.larger_is_better = json.at("larger_is_better").get<bool>();
  for (const auto& metric : json.at("metrics")) {
    result.metrics.push_back({split_called(metric.at(0).get<std::string>()), metric.at(1).get<std::string>(),
                              number_from(metric.at(2)), metric.at(3).get<bool>()});
  }
  result.epochs = json.at("epochs").get<std::int64_t>();
  result.steps = json.at("steps").get<std::int64_t>();
  result.kept_epochs = json.at("kept_epochs").get<std::int64_t>();
  result.seconds = json.at("seconds").get<double>();
  return result;
}

}  // namespace unisono::records
