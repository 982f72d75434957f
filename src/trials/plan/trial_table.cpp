#include "unisono/trials/trial_table.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "unisono/records/csv_field.hpp"

namespace unisono::trials {
namespace {

/// Means over a trial's trainings, by "validation.accuracy", in the order of their first appearance.
using Means = std::vector<std::pair<std::string, double>>;

Means means_of(const TrialRecord& trial) {
  Means means;
  for (const auto& [which, result] : trial.results) {
    for (const records::MeasuredMetric& metric : result.metrics) {
      const std::string name = fmt::format("{}.{}", data::name_of(metric.split), metric.name);
      auto found = std::find_if(means.begin(), means.end(), [&](const auto& mean) { return mean.first == name; });
      if (found == means.end()) found = means.insert(means.end(), {name, 0.0});
      found->second += metric.value / static_cast<double>(trial.results.size());
    }
  }
  return means;
}

std::map<std::string, std::string> values_at(const search::Space& space, const search::Point& point) {
  std::map<std::string, std::string> values;
  for (const search::Assignment& one : space.at(point)) {
    const auto* text = std::get_if<std::string>(&one.value.value);
    values[one.key] = text != nullptr ? *text : toml_text(one.value);
  }
  return values;
}

std::vector<std::string> keys_of(const TrialPlan& plan, const search::Space& space) {
  std::vector<std::string> keys;
  for (const auto& [number, trial] : plan.trials()) {
    for (const search::Assignment& one : space.at(plan.method().point(number))) {
      if (std::find(keys.begin(), keys.end(), one.key) == keys.end()) keys.push_back(one.key);
    }
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<std::string> metrics_of(const TrialPlan& plan) {
  std::vector<std::string> names;
  for (const auto& [number, trial] : plan.trials()) {
    for (const auto& [name, mean] : means_of(trial)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::int64_t epochs_of(const TrialRecord& trial) {
  return trial.results.empty() ? 0 : trial.results.begin()->second.epochs;
}

std::string status_of(const TrialRecord& trial) {
  return std::string(trial.has_ended ? name_of(trial.status, records::kTrialStatuses) : "unfinished");
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace

std::string TrialTable::csv() const {
  const std::vector<std::string> keys = keys_of(plan, space), metrics = metrics_of(plan);
  std::string text = "trial,status,value,deviation,epochs";
  for (const std::string& key : keys) text += "," + records::csv_field(key);
  for (const std::string& name : metrics) text += "," + records::csv_field(name);
  text += ",message\n";
  for (const auto& [trial_number, trial] : plan.trials()) {
    const auto values = values_at(space, plan.method().point(trial_number));
    const bool has_value = trial.has_ended && trial.status == records::TrialStatus::complete;
    text +=
        fmt::format("{},{},{},{},{}", trial_number, status_of(trial), has_value ? fmt::format("{}", trial.value) : "",
                    has_value ? fmt::format("{}", trial.deviation) : "", epochs_of(trial));
    for (const std::string& key : keys) text += "," + (values.contains(key) ? records::csv_field(values.at(key)) : "");
    const Means means = means_of(trial);
    for (const std::string& name : metrics) {
      const auto found = std::find_if(means.begin(), means.end(), [&](const auto& mean) { return mean.first == name; });
      text += "," + (found == means.end() ? "" : fmt::format("{}", found->second));
    }
    text += "," + records::csv_field(trial.message) + "\n";
  }
  return text;
}

nlohmann::ordered_json TrialTable::json(bool is_complete) const {
  nlohmann::ordered_json made = {{"kind", "search"}, {"status", is_complete ? "complete" : "interrupted"}};
  made["metric"] = metric;
  made["at_a_time"] = at_a_time;
  made["seconds"] = seconds;
  if (const auto best = plan.best()) made["best"] = *best;
  made["trials"] = nlohmann::ordered_json::array();
  for (const auto& [trial_number, trial] : plan.trials()) {
    nlohmann::ordered_json row = {{"trial", trial_number}, {"status", status_of(trial)}};
    row["value"] = number(trial.value);
    row["deviation"] = number(trial.deviation);
    row["epochs"] = epochs_of(trial);
    row["seconds"] = trial.seconds;
    row["settings"] = values_at(space, plan.method().point(trial_number));
    for (const auto& [name, mean] : means_of(trial)) row["metrics"][name] = number(mean);
    if (!trial.message.empty()) row["message"] = trial.message;
    made["trials"].push_back(std::move(row));
  }
  return made;
}

}  // namespace unisono::trials
