#include "trials/trial_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "run/run_folder.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::experiment {
namespace {

namespace fs = std::filesystem;

std::string journal_of(const std::string& folder) { return folder + "/journal.jsonl"; }

bool has_checkpoint(const std::string& run_folder) {
  std::error_code ignored;
  const fs::path checkpoints = checkpoints_of(run_folder);
  return fs::is_directory(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored);
}

/// Makes the folder ready: refuses, keeps or removes what an earlier job has left there.
void prepare_folder(const std::string& folder, Existing existing) {
  std::error_code error;
  const bool holds_job = fs::exists(journal_of(folder), error);
  if (holds_job && existing == Existing::refuse) {
    throw OutputError(
        fmt::format("{}: already holds trials; go on with them (--resume), replace them (--overwrite), or choose "
                    "another folder (--output DIR)",
                    folder));
  }
  if (!holds_job && existing == Existing::resume) {
    throw CheckpointError(
        fmt::format("{}: there is nothing to resume; start without --resume, or name the folder with --output DIR",
                    folder));
  }
  if (!holds_job && fs::exists(folder + "/trials", error)) {
    throw OutputError(fmt::format("{}: holds a folder 'trials', but no journal of a search; choose another folder "
                                  "(--output DIR)",
                                  folder));
  }
  if (holds_job && existing == Existing::overwrite) {
    fs::remove_all(folder + "/trials", error);
    if (!error) fs::remove(journal_of(folder), error);
    if (error) throw OutputError(fmt::format("{}: cannot be replaced: {}", folder, error.message()));
  }
  fs::create_directories(folder, error);
  if (error) {
    throw OutputError(fmt::format("{}: the folder cannot be created: {}; choose another one with --output", folder,
                                  error.message()));
  }
}

/// The first entry says of which job the journal is.
void begin_or_check(Journal& journal, const TrialJob& trials) {
  if (journal.entries().empty()) return journal.append({{"config", trials.identity}});
  std::vector<std::string> changed =
      changed_keys(journal.entries().front().at("config").get<std::string>(), trials.identity);
  std::erase_if(changed, trials.may_change);
  if (changed.empty()) return;
  throw CheckpointError(fmt::format("{}: the config has changed since these trials began, in {}; take the config with "
                                    "which they began, or begin anew in another folder (--output DIR)",
                                    trials.folder, fmt::join(changed, ", ")));
}

/// Rank 0's part of the work.
class TrialDesk {
 public:
  TrialDesk(Job& job, const TrialJob& trials) : trials_(trials) {
    prepare_folder(trials.folder, trials.existing);
    journal_.emplace(journal_of(trials.folder));
    begin_or_check(*journal_, trials);
    replay(journal_->entries(), trials.plan);
    dispatcher_.emplace(
        trials.plan, &*journal_, trials.end, job.clock(), [this](const Training& training) { return order(training); },
        [this](const Training& training, const TrainingResult& result) { note_end(training, result); });
  }

  PlanDispatcher& dispatcher() { return *dispatcher_; }

  /// Removes the checkpoints of all trials but the best one.
  void tidy() const {
    if (trials_.keep != KeptTrials::best) return;
    for (const auto& [number, trial] : trials_.plan.trials()) {
      if (trials_.plan.best() == number) continue;
      for (const auto& [which, result] : trial.results) remove_checkpoints({.trial = number, .repeat = which.first, .fold = which.second});
    }
  }

 private:
  TrainingOrder order(const Training& training) const {
    TrainingOrder order{.training = training, .overrides = trials_.overrides(training)};
    if (trials_.keep == KeptTrials::none) return order;
    order.folder = folder_of(trials_.folder, training, trials_.plan);
    order.goes_on = has_checkpoint(order.folder);
    return order;
  }

  void note_end(const Training& training, const TrainingResult& result) {
    trials_.on_end(training, result);
    const bool may_go_on = training.epochs > 0;  // methods that train in several steps tidy up at their end
    if (trials_.keep == KeptTrials::best && !may_go_on && !training.refit) forget_loser(training);
  }

  /// Of a trial that has ended: its checkpoints if it is not the best, else those of the best one before.
  void forget_loser(const Training& training) {
    if (!trials_.plan.trials().at(training.trial).has_ended) return;
    const auto best = trials_.plan.best();
    const auto loser = best == training.trial ? best_ : std::optional(training.trial);
    best_ = best;
    if (!loser) return;
    for (const auto& [which, result] : trials_.plan.trials().at(*loser).results) {
      remove_checkpoints({.trial = *loser, .repeat = which.first, .fold = which.second});
    }
  }

  void remove_checkpoints(const Training& training) const {
    std::error_code ignored;
    fs::remove_all(checkpoints_of(folder_of(trials_.folder, training, trials_.plan)), ignored);
  }

  const TrialJob& trials_;
  std::optional<Journal> journal_;
  std::optional<PlanDispatcher> dispatcher_;
  std::optional<std::int64_t> best_;
};

}  // namespace

std::string folder_of(const std::string& folder, const Training& training, const TrialPlan& plan) {
  if (training.refit) return folder + "/best";
  std::string path = fmt::format("{}/trials/{:04}", folder, training.trial);
  if (plan.shape().repeats > 1) path += fmt::format("/repeat-{}", training.repeat);
  if (plan.shape().folds > 0) path += fmt::format("/fold-{}", training.fold);
  return path;
}

bool run_trials(Job& job, const TrialJob& trials) {
  std::optional<TrialDesk> desk;
  if (job.ranks().is_root()) desk.emplace(job, trials);
  make_trainings(job, trials.shape, trials.terms, desk ? &desk->dispatcher() : nullptr);
  const bool is_complete = job.ranks().max(desk && !desk->dispatcher().was_stopped() ? 1 : 0) != 0;
  if (desk && is_complete) desk->tidy();
  return is_complete;
}

}  // namespace unisono::experiment
