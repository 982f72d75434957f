#include "trials/trial_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>

#include "unisono/base/clock.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/trials/median_rule.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

bool is_there(const JobFolder& folder, const std::string& name) {
  std::error_code ignored;
  return fs::exists(fs::path(folder.path) / name, ignored);
}

/// Refuses a folder that holds what does not fit.
void require_folder(const JobFolder& folder) {
  std::error_code ignored;
  const bool has_journal = fs::exists(folder.journal, ignored);
  require_owner(folder.path, folder.owner, folder.existing, has_journal);
  const auto left = std::ranges::find_if(folder.runs, [&](const auto& name) { return is_there(folder, name); });
  if (has_journal || left == folder.runs.end()) return;
  throw OutputError(fmt::format("{}: there is '{}', but no journal of trials; choose another folder (--output DIR)",
                                folder.path, *left));
}

void remove_made(const JobFolder& folder) {
  std::error_code error;
  for (const auto* names : {&folder.runs, &folder.results}) {
    for (const std::string& name : *names) {
      if (!error) fs::remove_all(fs::path(folder.path) / name, error);
    }
  }
  if (error) throw OutputError(fmt::format("{}: cannot be replaced: {}", folder.path, error.message()));
}

/// Rank 0's: asks the plan, and writes what happens to the journal.
class PlanDispatcher final : public Dispatcher {
 public:
  PlanDispatcher(session::Job& job, TrialJob& trials)
      : job_(job), trials_(trials), journal_(open_journal(trials)), end_(trials.end()), watch_(job.clock()) {
    trials.resume(*journal_);
  }

  Answer take() override {
    const std::lock_guard lock(mutex_);
    look_for_end();
    trials::Plan& plan = trials_.plan();
    if (stopped_ || plan.is_complete()) return {.kind = Answer::Kind::stop};
    const auto training = plan.next();
    if (!training) return {.kind = Answer::Kind::wait};
    trials_.note_start(*journal_, *training, seconds());
    plan.started(*training);
    return {.kind = Answer::Kind::work, .task = trials_.task_for(*training)};
  }

  void give(const records::TrialRun& training, const records::TrialResult& result) override {
    const std::lock_guard lock(mutex_);
    if (result.status == records::TrialStatus::interrupted) {
      stopped_ = true;  // it starts once more when the job is resumed
      return;
    }
    trials_.note_end(*journal_, training, result, seconds());
    trials_.plan().ended(training, result);
    if (end_.loss && !training.refit && result.loss() <= *end_.loss) trials_.plan().begin_no_more();
    trials_.ended(training, result);
  }

  bool goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) override {
    const std::lock_guard lock(mutex_);
    return !end_.median_rule || training.refit || median_.goes_on(training, epochs, loss);
  }

  bool wants_stop() override {
    const std::lock_guard lock(mutex_);
    look_for_end();
    return stopped_;
  }

  void request_stop() override {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }

 private:
  void look_for_end() {
    if (job_.received_signal() != 0) stopped_ = true;
    if (end_.seconds > 0 && watch_.seconds() > end_.seconds) trials_.plan().begin_no_more();
  }
  /// Since the job began, for the journal.
  double seconds() const { return std::round(1000 * watch_.seconds()) / 1000; }

  std::mutex mutex_;
  session::Job& job_;
  TrialJob& trials_;
  std::unique_ptr<records::Journal> journal_;
  EndOfTrials end_;
  Stopwatch watch_;
  trials::MedianRule median_;
  bool stopped_ = false;
};

}  // namespace

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw OutputError(
      fmt::format("{}: the folder cannot be created: {}; choose another one with --output", folder, error.message()));
}

std::unique_ptr<records::Journal> open_journal(TrialJob& trials) {
  const JobFolder folder = trials.folder();
  require_folder(folder);
  make_folder(folder.path);
  const bool anew = folder.existing == records::Existing::overwrite;
  auto journal = std::make_unique<records::Journal>(folder.journal, anew);  // from here on no other job writes there
  if (anew) remove_made(folder);
  trials.begin(*journal);
  return journal;
}

bool run_trials(session::Job& job, TrialJob& trials) {
  std::optional<PlanDispatcher> dispatcher;
  if (job.ranks().is_root()) dispatcher.emplace(job, trials);
  make_trial_runs(job, trials, dispatcher ? &*dispatcher : nullptr);
  return job.ranks().max(dispatcher && trials.plan().is_complete() ? 1 : 0) != 0;
}

}  // namespace unisono::jobs
