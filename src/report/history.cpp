#include "history.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <set>

#include "page.hpp"
#include "runs/run_table.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/metrics_log.hpp"

namespace unisono::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostOfLog = 64 << 10;

/// Adds a point behind the others; or in order, in place of one of the same step, where an earlier step is the last.
void add_point(Curve& curve, double step, double value) {
  auto place = curve.steps.end();
  if (!curve.empty() && step < curve.steps.back()) place = std::ranges::lower_bound(curve.steps, step);
  const auto at = curve.values.begin() + (place - curve.steps.begin());
  if (place != curve.steps.end() && *place == step) {
    *at = value;
  } else {
    curve.values.insert(at, value);
    curve.steps.insert(place, step);
  }
}

/// Every number of an object and of the objects inside it, by its path: "seconds.compute".
void add_numbers(const Json& object, const std::string& path, double step, std::map<std::string, Curve>& curves) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object()) add_numbers(value, path + name + ".", step, curves);
    if (!value.is_number() && !value.is_null()) continue;
    add_point(curves[path + name], step,
              value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>());
  }
}

void add_line(const records::MetricsLine& line, RunHistory& run) {
  const Json json = line.fields();
  if (!json.contains("step") || !json["step"].is_number()) return;
  const double step = json["step"].get<double>();
  const bool evaluated = json.value("event", "") == "evaluation";
  const double epoch = number_in(json, "epoch");
  if (const double known = number_in(json, "steps_per_epoch"); known > 0) {
    run.steps_per_epoch = known;
  } else if (evaluated && epoch > 0 && run.steps_per_epoch == 0) {
    run.steps_per_epoch = step / epoch;  // evaluations are at the ends of epochs
  }
  // After an early stop, the last evaluations are of the weights of an earlier step.
  const double restored = evaluated ? number_in(json, "weights_of_step") : std::nan("");
  if (!std::isnan(restored)) run.restored_step = restored;
  add_numbers(json, (evaluated ? json.value("split", "test") : "train") + " ", std::isnan(restored) ? step : restored,
              run.curves);
}

std::string last_part(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(0, file.tellg()));
  const std::size_t taken = std::min(size, kMostOfLog);
  std::string text(taken, '\0');
  file.seekg(static_cast<std::streamoff>(size - taken));
  file.read(text.data(), static_cast<std::streamsize>(taken));
  return taken < size ? text.substr(text.find('\n') + 1) : text;
}

}  // namespace

const Curve& RunHistory::curve(const std::string& name) const {
  static const Curve kNone;
  const auto found = curves.find(name);
  return found == curves.end() ? kNone : found->second;
}

namespace {

/// The metrics that a run has recorded.
std::set<std::string> recorded_metrics(const RunHistory& run) {
  std::set<std::string> names;
  for (const auto& [path, curve] : run.curves) {
    const std::string name = path.substr(path.find(' ') + 1);
    if (models::is_metric(name) && name.find('.') == std::string::npos) names.insert(name);
  }
  return names;
}

/// Those of them that its page shows.
std::set<std::string> shown_metrics(const RunHistory& run) {
  const std::set<std::string> all = recorded_metrics(run);
  std::set<std::string> shown = usual_metrics(all);
  std::vector<models::Metric> metrics;
  for (const std::string& name : all) metrics.push_back({.name = name});
  const auto add = [&](const std::string& text) {
    const models::Metric* const metric = models::find_metric(metrics, records::split_and_metric(text).second);
    if (metric != nullptr) shown.insert(metric->name);
  };
  for (const char* key : {"checkpoint.best.metric", "train.early_stopping.metric"}) add(run.setting(key));
  const auto list = nlohmann::json::parse(run.setting("metrics.show"), nullptr, /*allow_exceptions=*/false);
  for (const auto& name : list.is_array() ? list : nlohmann::json::array()) {
    if (name.is_string()) add(name.get<std::string>());
  }
  return shown;
}

}  // namespace

std::string RunHistory::setting(const std::string& key) const {
  const auto found = record.config.find(key);
  return found == record.config.end() ? "" : unquoted(found->second);
}

std::vector<std::string> RunHistory::other_metrics() const {
  const std::set<std::string> all = recorded_metrics(*this), shown = shown_metrics(*this);
  std::vector<std::string> others;
  std::ranges::set_difference(all, shown, std::back_inserter(others));
  return others;
}

std::vector<std::string> RunHistory::metrics() const {
  std::set<std::string> names = shown_metrics(*this);
  std::vector<std::string> ordered;
  if (names.erase("loss") > 0) ordered.emplace_back("loss");
  ordered.insert(ordered.end(), names.begin(), names.end());
  return ordered;
}

std::vector<double> RunHistory::epochs_of(const std::vector<double>& steps) const {
  std::vector<double> epochs = steps;
  if (steps_per_epoch > 0) {
    for (double& step : epochs) step /= steps_per_epoch;
  }
  return epochs;
}

std::string RunHistory::name() const {
  const std::string last = std::filesystem::path(record.folder).filename().string();
  return last.empty() || last == "." || last == ".." ? record.folder : last;
}

RunHistory read_history(const std::string& folder) {
  RunHistory run;
  run.record = records::read_run(folder);
  run.config = records::read_text_file(records::config_of(folder));
  run.log = last_part(folder + "/log.txt");
  run.summary = records::read_summary(folder);
  records::MetricsReader reader(folder);
  while (const auto line = reader.next()) add_line(*line, run);
  return run;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr double kUnknownNumber = std::numeric_limits<double>::quiet_NaN();

void add_numbers(const Json& object, std::map<std::string, double>& numbers) {
  for (const auto& [name, value] : object.items())
    numbers[name] = value.is_number() ? value.get<double>() : kUnknownNumber;
}

/// What cross_validation.json has.
void add_results(const Json& results, ValidationHistory& history) {
  history.corrected_for_overlap = results.value("corrected_for_overlap", false);
  history.examples = number_in(results, "examples");
  history.job.folds = results.at("folds").get<std::int64_t>();
  if (results.contains("classes")) history.class_names = results.at("classes").get<std::vector<std::string>>();
  for (const auto& [name, metric] : results.at("metrics").items()) {
    history.figures.push_back({.name = name,
                               .interval = {.mean = number_in(metric, "mean"),
                                            .deviation = number_in(metric, "deviation"),
                                            .low = number_in(metric, "low"),
                                            .high = number_in(metric, "high")},
                               .pooled = number_in(metric, "pooled"),
                               .folds = number_in(metric, "folds")});
  }
  for (const Json& result : results.at("results")) {
    FoldLine line{.fold = result.at("fold").get<std::int64_t>(),
                  .status = result.at("status").get<std::string>(),
                  .message = result.value("message", ""),
                  .training_examples = number_in(result, "training_examples"),
                  .validation_examples = number_in(result, "validation_examples"),
                  .seconds = number_in(result, "seconds"),
                  .metrics = {}};
    if (result.contains("metrics")) add_numbers(result.at("metrics"), line.metrics);
    history.folds.push_back(std::move(line));
  }
}

/// The fold that a training measures; nothing: it is one of many trials within a fold, or that on all examples.
std::optional<std::int64_t> measured_fold(const records::TrialRun& training) {
  if (training.refit != training.is_nested()) return std::nullopt;
  return training.is_nested() ? training.outer : training.fold;
}

/// What the journal has of searches within folds, and the results of what they chose.
void add_searches(const Json& results, ValidationHistory& history) {
  std::map<std::int64_t, FoldSearch> searches;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<double>> values;  // by fold and trial
  for (const TrainingSpan& span : history.job.trainings) {
    const records::TrialRun& training = span.training;
    if (!span.result || !training.is_nested()) continue;
    FoldSearch& search = searches[training.outer];
    search.fold = training.outer;
    if (!training.refit) {
      values[{training.outer, training.trial}].push_back(span.result->value);
      continue;
    }
    search.chosen = training.trial;
    search.measured = span.result->value;
  }
  for (const auto& [which, all] : values) ++searches.at(which.first).trials;
  for (auto& [fold, search] : searches) {
    if (search.chosen >= 0) search.value = records::mean_interval(values[{fold, search.chosen}]).mean;
    history.searches.push_back(std::move(search));
  }
  for (const Json& result : results) {
    const auto fold = result.at("fold").get<std::int64_t>();
    const auto found = std::ranges::find(history.searches, fold, &FoldSearch::fold);
    if (found != history.searches.end()) found->choice = result.value("choice", "");
  }
}

/// What the journal has.
void add_journal(ValidationHistory& history) {
  std::map<std::int64_t, FoldLine> lines;
  std::vector<std::string> names;
  for (const TrainingSpan& span : history.job.trainings) {
    const auto fold = measured_fold(span.training);
    if (!span.result || !fold) continue;
    FoldLine line{.fold = *fold,
                  .status = std::string(name_of(span.result->status, records::kTrialStatuses)),
                  .message = span.result->message,
                  .training_examples = kUnknownNumber,
                  .validation_examples = kUnknownNumber,
                  .seconds = span.result->seconds,
                  .metrics = {}};
    for (const records::MeasuredMetric& metric : span.result->metrics) {
      if (metric.split != data::Split::validation || span.result->status != records::TrialStatus::complete) continue;
      line.metrics[metric.name] = metric.value;
      if (std::find(names.begin(), names.end(), metric.name) == names.end()) names.push_back(metric.name);
    }
    lines[line.fold] = std::move(line);
  }
  for (auto& [fold, line] : lines) history.folds.push_back(std::move(line));
  for (const std::string& name : names) {
    const std::vector<double> values = history.values(name);
    history.figures.push_back({.name = name,
                               .interval = records::mean_interval(values),
                               .pooled = kUnknownNumber,
                               .folds = static_cast<double>(values.size())});
  }
}

/// The class with the largest output; of a single output, the second class above the middle of what it can be.
std::int32_t class_of(const std::vector<double>& outputs, double middle) {
  if (outputs.size() == 1) return outputs.front() > middle ? 1 : 0;
  return static_cast<std::int32_t>(std::max_element(outputs.begin(), outputs.end()) - outputs.begin());
}

struct FoldPredictions {
  std::vector<std::int32_t> labels;
  std::vector<std::vector<double>> outputs;
};

/// \param first column of the outputs
FoldPredictions read_predictions(std::istream& file, std::size_t first) {
  FoldPredictions read;
  std::vector<std::string> fields;
  while (read_csv_line(file, fields)) {
    if (fields.size() <= first) continue;
    read.labels.push_back(std::atoi(fields[first - 1].c_str()));
    std::vector<double>& outputs = read.outputs.emplace_back();
    for (std::size_t i = first; i < fields.size(); ++i) outputs.push_back(std::atof(fields[i].c_str()));
  }
  return read;
}

}  // namespace

bool read_csv_line(std::istream& file, std::vector<std::string>& fields) {
  fields.assign(1, "");
  bool is_quoted = false, any = false;
  for (char c = 0; file.get(c);) {
    any = true;
    if (is_quoted && c == '"' && file.peek() == '"') {
      fields.back() += static_cast<char>(file.get());
    } else if (c == '"') {
      is_quoted = !is_quoted;
    } else if (!is_quoted && c == ',') {
      fields.emplace_back();
    } else if (!is_quoted && c == '\n') {
      return true;
    } else {
      fields.back() += c;
    }
  }
  return any;
}

std::vector<double> ValidationHistory::values(const std::string& metric) const {
  std::vector<double> values;
  for (const FoldLine& line : folds) {
    if (line.metrics.contains(metric) && line.status == "complete") values.push_back(line.metrics.at(metric));
  }
  return values;
}

ValidationHistory read_validation(const std::string& folder) {
  ValidationHistory history;
  history.job = read_trials(folder);
  history.examples = kUnknownNumber;
  if (history.job.status == "complete") {
    const Json results = Json::parse(std::ifstream(folder + "/cross_validation.json"));
    add_results(results, history);
    add_searches(results.at("results"), history);
  } else {
    add_journal(history);
    add_searches({}, history);
  }
  return history;
}

std::optional<PooledClasses> read_classes(const std::string& path,
                                          const std::optional<std::vector<std::string>>& names) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> head;
  constexpr std::size_t kFirst = 3;
  if (!file || !read_csv_line(file, head) || head.size() <= kFirst || head[kFirst - 1] != "label") return std::nullopt;
  const FoldPredictions predictions = read_predictions(file, kFirst);
  const auto classes = static_cast<Index>(std::max<std::size_t>(2, head.size() - kFirst));
  if (classes > records::ConfusionMatrix::kMostClasses || predictions.labels.empty()) return std::nullopt;
  bool are_probabilities = true;  // else margins, around 0
  for (const auto& outputs : predictions.outputs) {
    if (outputs.size() != head.size() - kFirst) return std::nullopt;
    are_probabilities = are_probabilities && outputs.front() >= 0 && outputs.front() <= 1;
  }
  PooledClasses pooled{.matrix = records::ConfusionMatrix(classes), .names = {}};
  for (std::size_t i = 0; i < predictions.labels.size(); ++i) {
    if (predictions.labels[i] < 0 || predictions.labels[i] >= classes) return std::nullopt;
    pooled.matrix.add(predictions.labels[i], class_of(predictions.outputs[i], are_probabilities ? 0.5 : 0));
  }
  const bool are_columns = !names && head[kFirst] != "output_0" && head.size() - kFirst > 1;
  if (are_columns) pooled.names.assign(head.begin() + kFirst, head.end());
  if (names && std::ssize(*names) == classes) pooled.names = *names;
  return pooled;
}

}  // namespace unisono::report
