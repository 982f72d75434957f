#include "unisono/trials/trial_plan.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "unisono/base/errors.hpp"

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

}  // namespace unisono::trials
