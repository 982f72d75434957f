#include "trials_history.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <tuple>

#include "unisono/base/errors.hpp"
#include "unisono/base/nesting.hpp"
#include "unisono/models/model.hpp"
#include "unisono/records/journal.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::report {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

/// Seconds since the file was last written to.
double age_of(const std::string& path) {
  std::error_code error;
  const auto written = fs::last_write_time(path, error);
  if (error) return 0;
  return std::max(0.0, std::chrono::duration<double>(fs::file_time_type::clock::now() - written).count());
}

/// Follows the entries of a journal.
class Reader {
 public:
  explicit Reader(TrialsHistory& history) : history_(history) {}

  void add(const json& entry) {
    if (entry.contains("job")) return begin(entry);
    const double at = before_ + entry.value("at", 0.0);
    history_.seconds = std::max(history_.seconds, at);
    if (entry.contains("started")) {
      const records::TrialRun training = records::trial_run_from(entry.at("started"));
      running_[key_of(training)] = history_.trainings.size();
      history_.trainings.push_back({.training = training, .start = at, .end = at, .is_running = true});
    } else if (entry.contains("ended")) {
      const auto found = running_.find(key_of(records::trial_run_from(entry.at("ended"))));
      if (found == running_.end()) return;
      TrainingSpan& span = history_.trainings[found->second];
      span.end = at;
      span.result = records::result_from(entry.at("result"));
      span.is_running = false;
      running_.erase(found);
    }
  }

  /// What has not ended ran until now, or until the last sign of the job.
  void end_part(bool is_running) {
    for (const auto& [key, i] : running_) {
      history_.trainings[i].end = history_.seconds;
      history_.trainings[i].is_running = is_running;
    }
  }

 private:
  static std::string key_of(const records::TrialRun& training) { return to_json(training).dump(); }

  /// The job begins, or goes on after it was stopped.
  void begin(const json& entry) {
    history_.kind = entry.at("job").get<std::string>();
    history_.config = entry.at("config").get<std::string>();
    history_.folds = entry.value("folds", std::int64_t{0});
    end_part(false);
    running_.clear();
    before_ = history_.seconds;
  }

  TrialsHistory& history_;
  std::map<std::string, std::size_t> running_;
  double before_ = 0;  ///< seconds of the earlier parts
};

json result_file(const TrialsHistory& job) {
  const std::string path = job.folder + "/" + job.kind + ".json";
  std::ifstream file(path);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  json result = json::parse(shallow_json(text, path), nullptr, /*allow_exceptions=*/false);
  return result.is_object() ? result : json::object();
}

std::string status_of_validation(const TrialsHistory& job) {
  const bool has_result = result_file(job).value("status", "") == "complete";
  // Exact fits are not handed out: there is only the result.
  const bool has_all = job.trainings.empty() || job.ended() >= job.folds;
  return has_result && has_all ? "complete" : "unfinished";
}

std::string status_of_search(const TrialsHistory& job, const trials::TrialPlan& plan) {
  if (plan.is_complete()) return "complete";
  const json result = result_file(job);
  const bool is_of_this = result.contains("trials") && result.at("trials").size() == plan.trials().size();
  return is_of_this ? result.value("status", "unfinished") : "unfinished";
}

/// The metric that trials are compared by: "auto" is the accuracy where there is one.
std::string metric_of(const SearchHistory& search) {
  const std::string& key = search.settings().metric;
  const std::string name = key == "auto" ? "accuracy" : records::split_and_metric(key).second;
  for (const TrainingSpan& span : search.job.trainings) {
    if (!span.result) continue;
    std::vector<models::Metric> metrics;
    for (const records::MeasuredMetric& metric : span.result->metrics) {
      if (metric.split == data::Split::validation) metrics.push_back({.name = metric.name});
    }
    if (const models::Metric* const metric = models::find_metric(metrics, name)) return metric->name;
  }
  return key == "auto" ? "loss" : name;
}

std::unique_ptr<trials::TrialPlan> plan_of(const SearchHistory& search) {
  const search::SearchSettings& settings = search.settings();
  const settings::Config& config = search.planned.config;
  auto method =
      search::make_search_method(settings, search.space, static_cast<std::uint64_t>(config.seed), config.train.epochs);
  auto plan = std::make_unique<trials::TrialPlan>(
      std::move(method),
      trials::PlanShape{.repeats = settings.repeats, .folds = search.job.folds, .refit = settings.refit});
  replay(search.job.entries, *plan);
  return plan;
}

/// The ends of steps: when the last of their trainings has ended.
std::vector<StepEnd> steps_of(const SearchHistory& search) {
  std::vector<const TrainingSpan*> ended;
  for (const TrainingSpan& span : search.job.trainings) {
    if (span.result && !span.training.refit) ended.push_back(&span);
  }
  std::stable_sort(ended.begin(), ended.end(), [](auto* a, auto* b) { return a->end < b->end; });
  struct Sum {
    std::int64_t count = 0;
    double sum = 0;
  };
  std::map<std::pair<std::int64_t, std::int64_t>, Sum> sums;
  std::vector<StepEnd> steps;
  for (const TrainingSpan* span : ended) {
    const records::TrialRun& training = span->training;
    Sum& sum = sums[{training.trial, training.epochs}];
    sum.sum += span->result->status == records::TrialStatus::complete ? span->result->value : kNotKnown;
    if (++sum.count < search.plan->trainings_per_step()) continue;
    const std::int64_t epochs = training.epochs > 0 ? training.epochs : search.planned.config.train.epochs;
    steps.push_back({.trial = training.trial,
                     .epochs = epochs,
                     .copied = training.copied,
                     .value = sum.sum / static_cast<double>(sum.count),
                     .at = span->end});
  }
  return steps;
}

/// The epochs that each training adds to its trial.
class Work {
 public:
  explicit Work(std::int64_t epochs) : epochs_(epochs) {}
  double of(const records::TrialRun& training) {
    if (training.epochs == 0) return static_cast<double>(epochs_);
    double& before = before_[{training.trial, training.repeat, training.fold}];
    const double added = static_cast<double>(training.epochs) - before;
    before = static_cast<double>(training.epochs);
    return std::max(0.0, added);
  }

 private:
  std::int64_t epochs_;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double> before_;
};

/// What a training would end with that has not ended: as well as it did before.
records::TrialResult expected(const SearchHistory& search, const trials::TrialPlan& plan,
                              const records::TrialRun& training) {
  records::TrialResult result{.larger_is_better = search.larger_is_better};
  const auto found = plan.trials().find(training.trial);
  if (found == plan.trials().end()) return result;
  for (const StepEnd& step : search.steps) {
    if (step.trial == training.trial && std::isfinite(step.value)) result.value = step.value;
  }
  return result;
}

/// The epochs that are to come where trials are trained in steps: plays the search to its end.
double work_left_in_steps(const SearchHistory& search, Work& work) {
  constexpr std::int64_t kMostSteps = 20'000;
  const std::unique_ptr<trials::TrialPlan> plan = plan_of(search);
  double left = 0;
  for (std::int64_t i = 0; i < kMostSteps; ++i) {
    const auto training = plan->next();
    if (!training) return left;
    left += work.of(*training);
    plan->started(*training);
    plan->ended(*training, expected(search, *plan, *training));
  }
  return kNotKnown;
}

double rate_of(const TrialsHistory& job, Work& work) {
  double seconds = 0, sum = 0;
  for (const TrainingSpan& span : job.trainings) {
    if (!span.result) continue;
    seconds += span.end - span.start;
    sum += work.of(span.training);
  }
  return sum > 0 ? seconds / sum : kNotKnown;
}

/// \param seconds that all trainings to come take, one after the other
double seconds_left(const TrialsHistory& job, double seconds) {
  for (const TrainingSpan& span : job.trainings) {
    if (span.is_running) seconds -= span.end - span.start;
  }
  const auto at_once = static_cast<double>(std::max<std::int64_t>(1, job.running()));
  return std::isfinite(seconds) ? std::max(0.0, seconds) / at_once : -1;
}

}  // namespace

std::string TrialsHistory::name() const {
  const std::string last = fs::path(folder).filename().string();
  return last.empty() || last == "." || last == ".." ? folder : last;
}

std::int64_t TrialsHistory::running() const {
  return std::count_if(trainings.begin(), trainings.end(), [](const auto& one) { return one.is_running; });
}

std::int64_t TrialsHistory::ended() const {
  return std::count_if(trainings.begin(), trainings.end(), [](const auto& one) { return one.result.has_value(); });
}

TrialsHistory::TimelineRows TrialsHistory::rows() const {
  TimelineRows rows;
  std::vector<double> free_at;  // of each row
  for (const TrainingSpan& span : trainings) {
    auto row = std::find_if(free_at.begin(), free_at.end(), [&](double at) { return at <= span.start; });
    if (row == free_at.end()) row = free_at.insert(row, 0);
    *row = span.is_running ? std::numeric_limits<double>::infinity() : span.end;
    rows.of_training.push_back(static_cast<std::size_t>(row - free_at.begin()));
  }
  rows.count = free_at.size();
  return rows;
}

TrialsHistory read_trials(const std::string& folder) {
  TrialsHistory history;
  history.folder = folder;
  const bool is_running =
      records::is_locked(records::trial_journal_of(folder));  // before reading: what has ended is read to its end
  history.entries = records::read_journal(records::trial_journal_of(folder));
  try {
    Reader reader(history);
    for (const json& entry : history.entries) reader.add(entry);
    if (is_running) history.seconds += age_of(records::trial_journal_of(folder));
    reader.end_part(is_running);
  } catch (const json::exception& error) {
    throw CheckpointError(fmt::format("{}: its journal.jsonl is damaged: {}", folder, error.what()));
  }
  history.status = is_running ? "running" : status_of_validation(history);
  return history;
}

double SearchHistory::value(std::int64_t trial) const {
  const auto found = plan->trials().find(trial);
  if (found == plan->trials().end() || !found->second.has_ended) return kNotKnown;
  return found->second.status == records::TrialStatus::complete ? found->second.value : kNotKnown;
}

std::vector<std::pair<std::string, std::string>> SearchHistory::settings_of(std::int64_t trial) const {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const search::Assignment& one : space.at(plan->method().point(trial))) {
    settings.emplace_back(one.key, toml_text(one.value));
  }
  return settings;
}

SearchHistory read_search(const std::string& folder, const models::ModelKinds& models) {
  SearchHistory search;
  search.job = read_trials(folder);
  search.planned = settings::parse_plans(
      {.path = records::trial_journal_of(folder), .text = search.job.config, .overrides = {}}, models);
  if (!search.planned.plans.search) throw CheckpointError(folder + ": its journal.jsonl has no config of a search");
  search.space = search::Space(search.settings().space);
  search.plan = plan_of(search);
  search.steps = steps_of(search);
  search.metric = "validation " + metric_of(search);
  for (const TrainingSpan& span : search.job.trainings) {
    if (span.result) search.larger_is_better = span.result->larger_is_better;
    if (span.result && span.result->status == records::TrialStatus::complete) break;
  }
  if (search.job.status != "running") search.job.status = status_of_search(search.job, *search.plan);
  return search;
}

double seconds_left(const SearchHistory& search) {
  const TrialsHistory& job = search.job;
  Work work(search.planned.config.train.epochs);
  const double rate = rate_of(job, work);
  double left = 0;
  if (search.is_in_steps()) {
    left = work_left_in_steps(search, work);
  } else {
    const std::int64_t all = search.plan->method().trials() * search.plan->trainings_per_step();
    left = static_cast<double>((all + (search.settings().refit ? 1 : 0) - job.ended()) *
                               search.planned.config.train.epochs);
  }
  return seconds_left(job, rate * left);
}

double seconds_left(const TrialsHistory& validation) {
  const bool is_nested =
      std::ranges::any_of(validation.trainings, [](const auto& one) { return one.training.is_nested(); });
  if (is_nested) return -1;
  Work work(1);
  const double rate = rate_of(validation, work);
  return seconds_left(validation, rate * static_cast<double>(validation.folds - validation.ended()));
}

}  // namespace unisono::report
