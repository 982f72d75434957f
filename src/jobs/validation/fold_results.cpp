#include "validation/fold_results.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "unisono/apply/prediction_sink.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/records/csv_field.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"

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
  return name == "loss" || name == "accuracy" || name == "top5_accuracy" || name == "log_loss" ||
         name == "brier_score" || name == "mae" || name == "rmse";
}

nlohmann::ordered_json number(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

/// One validated example.
struct Line {
  std::int64_t example = 0, fold = 0;
  std::size_t at = 0;  ///< of its outputs among all
};

/// Whether every example has one line. \param lines by example
bool each_once(const std::vector<Line>& lines, std::int64_t examples) {
  if (std::ssize(lines) != examples) return false;
  for (std::int64_t i = 0; i < examples; ++i) {
    if (lines[static_cast<std::size_t>(i)].example != i) return false;
  }
  return true;
}

/// \param lines one for each example, in their order
void write_hdf5(const std::string& path, const std::vector<Line>& lines, const std::vector<float>& outputs,
                std::size_t width, const std::vector<std::int32_t>& labels,
                const std::vector<std::string>& class_names) {
  apply::SinkOptions options{.path = path,
                             .examples = std::ssize(lines),
                             .outputs = static_cast<Index>(width),
                             .class_names = class_names,
                             .overwrite = true};
  if (!labels.empty()) {
    options.answer = "label";
    options.answer_width = 1;
  }
  std::vector<float> rows;
  for (const Line& line : lines) {
    const auto begin = outputs.begin() + static_cast<std::ptrdiff_t>(line.at);
    rows.insert(rows.end(), begin, begin + static_cast<std::ptrdiff_t>(width));
  }
  const std::vector<float> answers(labels.begin(), labels.end());
  const auto sink = apply::make_prediction_sink(options);
  sink->write(0, 0, rows, answers);
  sink->finish();
}

}  // namespace

std::vector<FoldMetric> FoldResults::metrics() const {
  std::vector<FoldMetric> all;
  for (const std::string& name : names_in(results)) {
    std::vector<double> values;
    double sum = 0, examples = 0;
    for (std::size_t fold = 0; fold < results.size(); ++fold) {
      const auto value = value_of(results[fold], name);
      if (!value || !std::isfinite(*value)) continue;
      values.push_back(*value);
      const auto size = static_cast<double>(folds.validation(static_cast<std::int64_t>(fold)).size());
      sum += size * (name == "rmse" ? *value * *value : *value);
      examples += size;
    }
    if (values.empty()) continue;
    FoldMetric metric{
        .name = name,
        .interval = overlap > 0 ? records::corrected_interval(values, overlap) : records::mean_interval(values),
        .folds = std::ssize(values)};
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
      text += "," + (value && !std::isnan(*value) ? fmt::format("{}", *value) : "");
    }
    if (!choices.empty()) text += "," + records::csv_text(choices[i]);
    text += "," + records::csv_text(results[i].message) + "\n";
  }
  return text;
}

nlohmann::ordered_json FoldResults::json() const {
  nlohmann::ordered_json made = {{"kind", "cross_validation"}, {"status", "complete"}};
  made["folds"] = folds.size();
  made["examples"] = folds.rows();
  made["seconds"] = seconds;
  made["corrected_for_overlap"] = overlap > 0;
  made["classes"] = class_names;
  made["metrics"] = nlohmann::ordered_json::object();
  for (const FoldMetric& metric : metrics()) {
    made["metrics"][metric.name] = {{"mean", number(metric.interval.mean)},
                                    {"deviation", number(metric.interval.deviation)},
                                    {"low", number(metric.interval.low)},
                                    {"high", number(metric.interval.high)},
                                    {"folds", metric.folds}};
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
    if (!results[i].short_of_convergence.empty()) row["short_of_convergence"] = results[i].short_of_convergence;
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
    text += fmt::format("  {:<24}{:>12}{:>12}  {:<26}{:>12}\n", metric.name, records::metric_text(interval.mean, 6),
                        records::metric_text(interval.deviation, 4), bounds,
                        metric.pooled ? records::metric_text(*metric.pooled, 6) : "");
    if (metric.folds < folds.size()) {
      text += fmt::format("    over {} of {}: the others have no {}\n", metric.folds, count_of(folds.size(), "fold"),
                          metric.name);
    }
  }
  return text;
}

std::string FoldResults::short_of_convergence() const {
  std::vector<std::string> numbers;
  std::string why;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].short_of_convergence.empty()) continue;
    if (numbers.empty()) why = results[i].short_of_convergence;
    numbers.push_back(std::to_string(i));
  }
  constexpr std::size_t kMostNumbers = 20;
  if (numbers.empty()) return "";
  const std::size_t count = numbers.size();
  numbers.resize(std::min(count, kMostNumbers));
  return fmt::format("{} of {} (number {}{}) ended short of convergence: {}", count, count_of(folds.size(), "fold"),
                     fmt::join(numbers, ", "), count > kMostNumbers ? ", …" : "", why);
}

std::vector<float> read_floats(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::string bytes = records::read_text_file(path);
  std::vector<float> floats(bytes.size() / sizeof(float));
  if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), floats.size() * sizeof(float));
  return floats;
}

void write_predictions(const std::string& folder, const Folds& folds, const PredictedSet& set,
                       const std::function<std::vector<float>(std::int64_t fold)>& outputs_of) {
  std::vector<Line> lines;
  std::vector<float> all;
  std::size_t width = 0;
  for (std::int64_t fold = 0; fold < folds.size(); ++fold) {
    const std::vector<float> outputs = outputs_of(fold);
    const std::vector<std::int64_t>& examples = folds.validation(fold);
    if (outputs.empty() || outputs.size() % examples.size() != 0) continue;
    width = outputs.size() / examples.size();
    for (std::size_t i = 0; i < examples.size(); ++i) lines.push_back({examples[i], fold, all.size() + i * width});
    all.insert(all.end(), outputs.begin(), outputs.end());
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.example < b.example; });
  const std::vector<std::int32_t> labels = data::read_training_labels(set.settings);
  std::string text = labels.empty() ? "example,fold" : "example,fold,label";
  const auto outputs = static_cast<Index>(width);
  for (Index i = 0; i < outputs; ++i) text += "," + apply::output_name(set.reading, outputs, i);
  text += "\n";
  for (const Line& line : lines) {
    text += fmt::format("{},{}", line.example, line.fold);
    if (!labels.empty()) text += fmt::format(",{}", labels[static_cast<std::size_t>(line.example)]);
    for (std::size_t i = 0; i < width; ++i) text += fmt::format(",{}", all[line.at + i]);
    text += "\n";
  }
  records::write_text_file(folder + "/predictions.csv", text);
  if (width > 0 && each_once(lines, folds.rows())) {
    write_hdf5(folder + "/predictions.h5", lines, all, width, labels, set.class_names);
  }
}

}  // namespace unisono::jobs
