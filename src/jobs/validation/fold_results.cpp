#include "validation/fold_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "unisono/records/csv_field.hpp"

namespace unisono::jobs {
namespace {

std::optional<double> value_of(const records::TrialResult& result, const std::string& name) {
  if (result.status != records::TrialStatus::complete) return std::nullopt;
  for (const records::MeasuredMetric& metric : result.metrics) {
    if (metric.split == data::Split::validation && metric.name == name) return metric.value;
  }
  return std::nullopt;
}

/// The names of all validation metrics, in the order of their first appearance.
std::vector<std::string> names_in(const std::vector<records::TrialResult>& results) {
  std::vector<std::string> names;
  for (const records::TrialResult& result : results) {
    for (const records::MeasuredMetric& metric : result.metrics) {
      const bool is_new = std::find(names.begin(), names.end(), metric.name) == names.end();
      if (metric.split == data::Split::validation && is_new) names.push_back(metric.name);
    }
  }
  return names;
}

/// Metrics that are means over examples, or roots of such means: the others (an area, a share of variance) of all
/// examples do not follow from those of their parts.
bool is_mean(const std::string& name) {
  return name == "loss" || name == "accuracy" || name == "top5_accuracy" || name == "mae" || name == "rmse";
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

}  // namespace

std::vector<FoldMetric> FoldResults::metrics() const {
  std::vector<FoldMetric> all;
  for (const std::string& name : names_in(results)) {
    std::vector<double> values;
    double sum = 0, examples = 0;
    for (std::size_t fold = 0; fold < results.size(); ++fold) {
      const auto value = value_of(results[fold], name);
      if (!value) continue;
      values.push_back(*value);
      const auto size = static_cast<double>(folds.validation(static_cast<std::int64_t>(fold)).size());
      sum += size * (name == "rmse" ? *value * *value : *value);
      examples += size;
    }
    FoldMetric metric{
        .name = name,
        .interval = overlap > 0 ? records::corrected_interval(values, overlap) : records::mean_interval(values)};
    if (is_mean(name)) metric.pooled = name == "rmse" ? std::sqrt(sum / examples) : sum / examples;
    all.push_back(std::move(metric));
  }
  return all;
}

std::string FoldResults::csv() const {
  const std::vector<std::string> names = names_in(results);
  std::string text = "fold,status,training_examples,validation_examples";
  for (const std::string& name : names) text += "," + name;
  text += choices.empty() ? ",message\n" : ",choice,message\n";
  for (std::size_t i = 0; i < results.size(); ++i) {
    const auto fold = static_cast<std::int64_t>(i);
    text += fmt::format("{},{},{},{}", fold, name_of(results[i].status, records::kTrialStatuses),
                        folds.training_size(fold), folds.validation(fold).size());
    for (const std::string& name : names) {
      const auto value = value_of(results[i], name);
      text += "," + (value ? fmt::format("{}", *value) : "");
    }
    if (!choices.empty()) text += "," + records::csv_field(choices[i]);
    text += "," + records::csv_field(results[i].message) + "\n";
  }
  return text;
}

nlohmann::ordered_json FoldResults::json() const {
  nlohmann::ordered_json made = {{"kind", "cross_validation"}, {"status", "complete"}};
  made["folds"] = folds.size();
  made["examples"] = folds.rows();
  made["seconds"] = seconds;
  made["corrected_for_overlap"] = overlap > 0;
  made["metrics"] = nlohmann::ordered_json::object();
  for (const FoldMetric& metric : metrics()) {
    made["metrics"][metric.name] = {{"mean", number(metric.interval.mean)},
                                    {"deviation", number(metric.interval.deviation)},
                                    {"low", number(metric.interval.low)},
                                    {"high", number(metric.interval.high)}};
    if (metric.pooled) made["metrics"][metric.name]["pooled"] = number(*metric.pooled);
  }
  made["results"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < results.size(); ++i) {
    nlohmann::ordered_json row = {{"fold", i},
                                  {"status", name_of(results[i].status, records::kTrialStatuses)},
                                  {"training_examples", folds.training_size(static_cast<std::int64_t>(i))},
                                  {"validation_examples", folds.validation(static_cast<std::int64_t>(i)).size()},
                                  {"seconds", results[i].seconds}};
    for (const records::MeasuredMetric& metric : results[i].metrics) {
      if (metric.split == data::Split::validation) row["metrics"][metric.name] = number(metric.value);
    }
    if (!choices.empty()) row["choice"] = choices[i];
    if (!results[i].message.empty()) row["message"] = results[i].message;
    made["results"].push_back(std::move(row));
  }
  return made;
}

std::string FoldResults::text() const {
  std::string text = fmt::format("  {:<24}{:>12}{:>12}  {:<26}{:>12}\n", "validation", "mean", "deviation",
                                 "95 % interval of the mean", "pooled");
  for (const FoldMetric& metric : metrics()) {
    const records::Interval& interval = metric.interval;
    const std::string bounds =
        std::isnan(interval.low) ? "" : fmt::format("{:.6g} to {:.6g}", interval.low, interval.high);
    text += fmt::format("  {:<24}{:>12.6g}{:>12.4g}  {:<26}{:>12}\n", metric.name, interval.mean, interval.deviation,
                        bounds, metric.pooled ? fmt::format("{:.6g}", *metric.pooled) : "");
  }
  return text;
}

}  // namespace unisono::jobs
