#include "unisono/trials/trial_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/records/csv_field.hpp"

namespace unisono::trials {
namespace {

records::TrialRun training_of(const search::SearchStep& step) {
  return {.trial = step.trial, .epochs = step.epochs, .copied = step.copied};
}

search::SearchStep step_of(const records::TrialRun& training) {
  return {.trial = training.trial, .epochs = training.epochs, .copied = training.copied};
}

double loss_of(const TrialRecord& trial) {
  double sum = 0;
  for (const auto& [which, result] : trial.results) sum += result.loss();
  return sum / static_cast<double>(trial.results.size());
}

/// For as long as the trial was trained; where trainings stopped early, until the epochs whose weights they kept (on
/// average): then no examples are left that could say when to stop.
std::int64_t epochs_of_refit(const TrialRecord& trial) {
  double sum = 0;
  bool stopped_early = false;
  for (const auto& [which, result] : trial.results) {
    stopped_early = stopped_early || result.kept_epochs > 0;
    sum += static_cast<double>(result.kept_epochs > 0 ? result.kept_epochs : result.epochs);
  }
  if (!stopped_early) return trial.step.epochs;
  return std::max<std::int64_t>(1, std::llround(sum / static_cast<double>(trial.results.size())));
}

/// The seed of a trial's training: a function of the experiment's seed and the numbers alone. At least 0, below 2⁵³.
inline std::int64_t seed_of_trial(std::int64_t seed, std::int64_t trial, std::int64_t repeat) {
  RandomStream random(static_cast<std::uint64_t>(seed), Purpose::trials, static_cast<std::uint64_t>(trial),
                      static_cast<std::uint32_t>(repeat));
  const std::uint64_t high = random.bits() >> 11U, low = random.bits();
  return static_cast<std::int64_t>(high << 32U | low);
}

records::TrialRun within(records::TrialRun training) {
  training.outer = -1;
  return training;
}

}  // namespace

TrialPlan::TrialPlan(std::unique_ptr<search::SearchMethod> method, const PlanShape& shape)
    : method_(std::move(method)), shape_(shape) {}

std::vector<records::TrialRun> TrialPlan::trainings_of(const records::TrialRun& step) const {
  std::vector<records::TrialRun> all;
  for (std::int64_t repeat = 0; repeat < shape_.repeats; ++repeat) {
    for (std::int64_t fold = 0; fold < std::max<std::int64_t>(1, shape_.folds); ++fold) {
      all.push_back(step);
      all.back().repeat = repeat;
      all.back().fold = shape_.folds == 0 ? -1 : fold;
    }
  }
  return all;
}

std::optional<records::TrialRun> TrialPlan::next() const {
  if (!waiting_.empty()) return waiting_.front();
  if (const auto step = begins_no_more_ ? std::nullopt : method_->next())
    return trainings_of(training_of(*step)).front();
  const bool ends = running_.empty() && (begins_no_more_ || method_->is_complete());
  if (!ends || !shape_.refit || refitted_ || !best()) return std::nullopt;
  return records::TrialRun{.trial = *best(), .epochs = epochs_of_refit(trials_.at(*best())), .refit = true};
}

void TrialPlan::started(const records::TrialRun& training) {
  if (std::find(running_.begin(), running_.end(), training) != running_.end()) return;  // once more, after a kill
  running_.push_back(training);
  const auto found = std::find(waiting_.begin(), waiting_.end(), training);
  if (found != waiting_.end()) {
    waiting_.erase(found);
    return;
  }
  if (training.refit) return;
  refitted_.reset();  // of a best trial that may no longer be it
  TrialRecord& trial = trials_[training.trial];
  trial = {.step = training_of(step_of(training)), .seconds = trial.seconds};
  method_->started(step_of(training));
  for (const records::TrialRun& other : trainings_of(trial.step)) {
    if (other != training) waiting_.push_back(other);
  }
}

void TrialPlan::ended(const records::TrialRun& training, const records::TrialResult& result) {
  const auto found = std::find(running_.begin(), running_.end(), training);
  if (found == running_.end()) throw CheckpointError("it ends a training that has not begun: " + training.text());
  running_.erase(found);
  if (training.refit) {
    refitted_ = result;
    return;
  }
  TrialRecord& trial = trials_.at(training.trial);
  trial.results[{training.repeat, training.fold}] = result;
  trial.seconds += result.seconds;
  if (std::ssize(trial.results) == trainings_per_step()) end_step(trial);
}

void TrialPlan::end_step(TrialRecord& trial) {
  trial.has_ended = true;
  const auto count = static_cast<double>(trial.results.size());
  double squares = 0;
  for (const auto& [which, result] : trial.results) trial.value += result.value / count;
  for (const auto& [which, result] : trial.results) {
    squares += (result.value - trial.value) * (result.value - trial.value);
    if (result.status == records::TrialStatus::complete || trial.status != records::TrialStatus::complete) continue;
    trial.status = result.status;
    trial.message = result.message;
  }
  if (trial.results.size() > 1) trial.deviation = std::sqrt(squares / (count - 1));
  method_->ended(step_of(trial.step), loss_of(trial));
}

bool TrialPlan::is_complete() const {
  const bool ended = waiting_.empty() && running_.empty() && (begins_no_more_ || method_->is_complete());
  return ended && !next();
}

void TrialPlan::restart_unended() {
  waiting_.insert(waiting_.begin(), running_.begin(), running_.end());
  running_.clear();
}

std::optional<std::int64_t> TrialPlan::best() const {
  std::optional<std::int64_t> best;
  double lowest = std::numeric_limits<double>::infinity();
  for (const auto& [number, trial] : trials_) {
    if (!trial.has_ended || !(loss_of(trial) < lowest)) continue;
    lowest = loss_of(trial);
    best = number;
  }
  return best;
}

void replay(const std::vector<nlohmann::json>& entries, Plan& plan) {
  for (const auto& entry : entries) {
    if (entry.contains("started")) {
      plan.started(records::trial_run_from(entry.at("started")));
    } else if (entry.contains("ended")) {
      plan.ended(records::trial_run_from(entry.at("ended")), records::result_from(entry.at("result")));
    }
  }
  plan.restart_unended();
}

std::vector<std::string> trial_overrides(const search::Space& space, const TrialPlan& plan, std::int64_t seed,
                                         const records::TrialRun& training) {
  std::vector<std::string> changes;
  for (const search::Assignment& one : space.at(plan.method().point(training.trial)))
    changes.push_back(one.override_text());
  changes.push_back(fmt::format("seed={}", seed_of_trial(seed, training.trial, training.repeat)));
  return changes;
}

settings::Config config_at(const ConfigText& text, const std::vector<search::Assignment>& values,
                           const models::ModelKinds& models) {
  ConfigText trial = text;
  for (const search::Assignment& one : values) trial.overrides.push_back(one.override_text());
  return settings::parse_config(trial, models);
}

std::string trial_folder(const std::string& search, const PlanShape& shape, const records::TrialRun& training) {
  if (training.refit) return search + "/best";
  std::string path = fmt::format("{}/trials/{:04}", search, training.trial);
  if (shape.repeats > 1) path += fmt::format("/repeat-{}", training.repeat);
  if (shape.folds > 0) path += fmt::format("/fold-{}", training.fold);
  return path;
}

std::string trial_text(const search::Space& space, const TrialPlan& plan, std::int64_t trial) {
  std::vector<std::string> parts;
  for (const search::Assignment& one : space.at(plan.method().point(trial))) {
    parts.push_back(one.key + " = " + toml_text(one.value));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::optional<records::TrialRun> NestedPlan::next() const {
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    auto training = plans_[i]->next();
    if (!training) continue;
    training->outer = static_cast<std::int64_t>(i);
    return training;
  }
  return std::nullopt;
}

void NestedPlan::started(const records::TrialRun& training) {
  plans_.at(static_cast<std::size_t>(training.outer))->started(within(training));
}

void NestedPlan::ended(const records::TrialRun& training, const records::TrialResult& result) {
  plans_.at(static_cast<std::size_t>(training.outer))->ended(within(training), result);
}

bool NestedPlan::is_complete() const {
  return std::ranges::all_of(plans_, [](const auto& plan) { return plan->is_complete(); });
}

void NestedPlan::begin_no_more() {
  for (const auto& plan : plans_) plan->begin_no_more();
}

void NestedPlan::restart_unended() {
  for (const auto& plan : plans_) plan->restart_unended();
}

MedianRule::Curve& MedianRule::curve_of(const records::TrialRun& training) {
  for (Curve& curve : curves_) {
    if (curve.training == training) return curve;
  }
  return curves_.emplace_back(Curve{.training = training, .losses = {}});
}

std::vector<double> MedianRule::means_of_others(const Curve& own, std::int64_t epochs) const {
  std::vector<double> means;
  for (const Curve& other : curves_) {
    if (&other == &own || other.training.trial == own.training.trial || !other.losses.contains(epochs)) continue;
    double sum = 0, count = 0;
    for (auto at = other.losses.begin(); at != other.losses.upper_bound(epochs); ++at, ++count) sum += at->second;
    means.push_back(sum / count);
  }
  return means;
}

bool MedianRule::goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) {
  if (std::isnan(loss)) return true;  // undefined: there is nothing to compare
  Curve& own = curve_of(training);
  own.losses[epochs] = loss;
  std::vector<double> means = means_of_others(own, epochs);
  if (std::ssize(means) < kLeastOthers) return true;
  const auto middle = means.begin() + std::ssize(means) / 2;
  std::nth_element(means.begin(), middle, means.end());
  const auto by_loss = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(own.losses.begin(), own.losses.end(), by_loss)->second <= *middle;
}

namespace {

/// Means over a trial's trainings, by "validation.accuracy", in the order of their first appearance. A metric that is
/// undefined in one of them has none: a mean over the others could not be compared with those of other trials.
using Means = std::vector<std::pair<std::string, double>>;

Means means_of(const TrialRecord& trial) {
  Means means;
  std::map<std::string, std::size_t> counts;
  for (const auto& [which, result] : trial.results) {
    for (const records::MeasuredMetric& metric : result.metrics) {
      if (std::isnan(metric.value)) continue;
      const std::string name = fmt::format("{}.{}", data::name_of(metric.split), metric.name);
      auto found = std::find_if(means.begin(), means.end(), [&](const auto& mean) { return mean.first == name; });
      if (found == means.end()) found = means.insert(means.end(), {name, 0.0});
      found->second += metric.value / static_cast<double>(trial.results.size());
      ++counts[name];
    }
  }
  std::erase_if(means, [&](const auto& mean) { return counts.at(mean.first) < trial.results.size(); });
  return means;
}

bool has_value(const TrialRecord& trial) {
  return trial.has_ended && trial.status == records::TrialStatus::complete && !std::isnan(trial.value);
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
  for (const std::string& key : keys) text += "," + records::csv_text(key);
  for (const std::string& name : metrics) text += "," + records::csv_text(name);
  text += ",message\n";
  for (const auto& [trial_number, trial] : plan.trials()) {
    const auto values = values_at(space, plan.method().point(trial_number));
    text += fmt::format("{},{},{},{},{}", trial_number, status_of(trial),
                        has_value(trial) ? fmt::format("{}", trial.value) : "",
                        has_value(trial) ? fmt::format("{}", trial.deviation) : "", epochs_of(trial));
    for (const std::string& key : keys) text += "," + (values.contains(key) ? records::csv_text(values.at(key)) : "");
    const Means means = means_of(trial);
    for (const std::string& name : metrics) {
      const auto found = std::find_if(means.begin(), means.end(), [&](const auto& mean) { return mean.first == name; });
      text += "," + (found == means.end() || std::isnan(found->second) ? "" : fmt::format("{}", found->second));
    }
    text += "," + records::csv_text(trial.message) + "\n";
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
    if (has_value(trial)) {
      row["value"] = number(trial.value);
      row["deviation"] = number(trial.deviation);
    } else {
      row["value"] = row["deviation"] = nullptr;
    }
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
