#include "trials/trial_job.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/records/folder_owner.hpp"
#include "unisono/records/run_folder.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

/// What trials leave, beside the journal.
constexpr std::array kMade = {"/trials", "/best", "/folds", "/final", "/outputs"};
/// And at its end.
constexpr std::array kResults = {
    "/trials.csv",      "/search.json",    "/best.toml",  "/folds.csv", "/cross_validation.json",
    "/predictions.csv", "/predictions.h5", "/report.html"};

bool has_checkpoint(const std::string& run_folder) {
  std::error_code ignored;
  const fs::path checkpoints = records::checkpoints_of(run_folder);
  return fs::is_directory(checkpoints, ignored) && !fs::is_empty(checkpoints, ignored);
}

/// The states of a trial at the ends of its steps, which others may take over: states/<epochs>/<checkpoint>.
std::string states_of(const std::string& run_folder) { return run_folder + "/states"; }

void link_or_copy(const fs::path& from, const fs::path& to, std::error_code& error) {
  fs::create_hard_link(from, to, error);
  if (error) fs::copy_file(from, to, fs::copy_options::overwrite_existing, error);
}

/// Keeps the newest checkpoint, which the trial's next step may remove. If it cannot be kept, nobody takes it over.
void keep_state(const std::string& run_folder, std::int64_t epochs) {
  std::error_code ignored;
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(records::checkpoints_of(run_folder), ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("step-") && name.ends_with(".h5") && name > newest.filename()) newest = entry.path();
  }
  const fs::path folder = fs::path(states_of(run_folder)) / std::to_string(epochs);
  fs::create_directories(folder, ignored);
  if (!newest.empty()) link_or_copy(newest, folder / newest.filename(), ignored);
}

/// A trial's last state of fewer epochs than these; nothing where it has none.
std::optional<fs::path> newest_state_before(const std::string& run_folder, std::int64_t epochs) {
  std::error_code ignored;
  std::int64_t newest = 0;
  for (const auto& entry : fs::directory_iterator(states_of(run_folder), ignored)) {
    const std::int64_t made = std::strtoll(entry.path().filename().c_str(), nullptr, 10);
    if (made < epochs) newest = std::max(newest, made);
  }
  for (const auto& entry : fs::directory_iterator(states_of(run_folder) + "/" + std::to_string(newest), ignored)) {
    return entry.path();
  }
  return std::nullopt;
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return;
  throw OutputError(
      fmt::format("{}: the folder cannot be created: {}; choose another one with --output", folder, error.message()));
}

/// Refuses a folder that holds what does not fit.
void require_folder(const TrialJob& trials) {
  const std::string& folder = trials.folder;
  const bool holds_trials = makes_trials(records::owner_of(folder));
  require_owner(folder, records::FolderOwner::trials, trials.existing, holds_trials);
  std::error_code error;
  for (const char* name : kMade) {
    if (holds_trials || !fs::exists(folder + name, error)) continue;
    throw OutputError(fmt::format("{}: there is '{}', but no journal of trials; choose another folder (--output DIR)",
                                  folder, name + 1));
  }
}

void remove_made(const std::string& folder) {
  std::error_code error;
  for (const char* name : kMade) {
    if (!error) fs::remove_all(folder + name, error);
  }
  for (const char* name : kResults) {
    if (!error) fs::remove(folder + name, error);
  }
  if (error) throw OutputError(fmt::format("{}: cannot be replaced: {}", folder, error.message()));
}

/// A journal without its first line says nothing about trials that are there.
void require_begin(const records::Journal& journal, const std::string& folder) {
  const bool is_empty = journal.entries().empty();
  std::error_code ignored;
  const bool holds_trials =
      std::ranges::any_of(kMade, [&](const char* name) { return fs::exists(folder + name, ignored); });
  if (is_empty ? !holds_trials : journal.entries().front().contains("config")) return;
  throw CheckpointError(
      fmt::format("{}: it does not begin with a config, so that nobody knows to what the trials in this "
                  "folder belong; begin anew (--overwrite), or choose another folder (--output DIR)",
                  journal.path()));
}

/// Checks that a journal is of this job. \param first its first entry
void require_same_job(const nlohmann::json& first, const TrialJob& trials) {
  const std::string kind = first.value("job", "");
  if (kind != trials.kind) {
    throw CheckpointError(fmt::format("{}: holds a {}, not a {}; choose another folder (--output DIR)", trials.folder,
                                      kind, trials.kind));
  }
  std::vector<std::string> changed = settings::changed_keys(first.at("config").get<std::string>(), trials.identity);
  std::erase_if(changed, trials.may_change);
  if (changed.empty()) return;
  throw CheckpointError(
      fmt::format("{}: the config has changed since these trials began, in {}; take the config with "
                  "which they began, or begin anew in another folder (--output DIR)",
                  trials.folder, fmt::join(changed, ", ")));
}

/// No trial is beyond the last one that the config asks for.
void require_enough_trials(const records::Journal& journal, const trials::TrialPlan& plan) {
  std::int64_t begun = 0;
  for (const auto& entry : journal.entries()) {
    if (entry.contains("started")) begun = std::max(begun, records::training_from(entry.at("started")).trial + 1);
  }
  if (begun <= plan.method().trials()) return;
  throw ConfigError(fmt::format("search.trials = {}, but trial {} has begun in this folder; raise it to at least {}",
                                plan.method().trials(), begun - 1, begun));
}

void resume(const records::Journal& journal, trials::Plan& plan) {
  try {
    replay(journal.entries(), plan);
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{}: {}; begin anew with --overwrite", journal.path(), error.what()));
  }
}

/// Rank 0's part of the work.
class TrialDesk {
 public:
  TrialDesk(session::Job& job, const TrialJob& trials) : trials_(trials), journal_(open_journal(trials)) {
    if (trials.compared != nullptr) require_enough_trials(*journal_, *trials.compared);
    resume(*journal_, trials.plan);
    trials.on_begin();
    dispatcher_.emplace(
        trials.plan, &*journal_, trials.end, job.clock(),
        [this](const records::Training& training) { return order(training); },
        [this](const records::Training& training, const records::TrainingResult& result) {
          note_end(training, result);
        },
        [this](const records::Training& training) {
          if (trials_.hands_on && !training.refit) keep_state(trials_.folder_of(training), training.epochs);
        });
  }

  PlanDispatcher& dispatcher() { return *dispatcher_; }

  /// Removes what only trials that go on need, and the checkpoints that are not kept.
  void tidy() const {
    if (trials_.compared == nullptr) return;
    std::error_code ignored;
    for (const auto& [number, trial] : trials_.compared->trials()) {
      if (trials_.hands_on) fs::remove_all(states_of(trials_.folder_of({.trial = number})), ignored);
      if (!trials_.only_best || trials_.compared->best() == number) continue;
      for (const auto& [which, result] : trial.results)
        remove_checkpoints({.trial = number, .repeat = which.first, .fold = which.second});
    }
  }

 private:
  records::TrainingOrder order(const records::Training& training) const {
    records::TrainingOrder order{.training = training, .overrides = trials_.overrides(training)};
    if (trials_.outputs_of) order.outputs = trials_.outputs_of(training);
    if (!order.outputs.empty()) make_folder(fs::path(order.outputs).parent_path());
    if (!training.refit && !training.is_nested()) forget_refit();
    const bool is_result = training.refit && !training.is_nested();
    if (!trials_.keeps_runs && !is_result) return order;
    order.folder = trials_.folder_of(training);
    if (training.copied) take_over(training, order.folder);
    order.goes_on = has_checkpoint(order.folder);
    order.takes_over = trials_.hands_on;
    return order;
  }

  /// A model that was trained on all examples before more trials were asked for.
  void forget_refit() const {
    std::error_code ignored;
    fs::remove_all(trials_.folder_of({.refit = true}), ignored);
  }

  /// Puts another trial's state in the place of this one's checkpoints.
  void take_over(const records::Training& training, const std::string& folder) const {
    const std::string source = trials_.folder_of({.trial = *training.copied});
    const auto state = newest_state_before(source, training.epochs);
    std::error_code error;
    fs::remove_all(records::checkpoints_of(folder), error);
    if (!error) fs::create_directories(records::checkpoints_of(folder), error);
    if (!error && state) link_or_copy(*state, fs::path(records::checkpoints_of(folder)) / state->filename(), error);
    if (!error && state) return;
    throw CheckpointError(fmt::format("{}: cannot take over the state of {}: {}", folder, source,
                                      error ? error.message() : "it has none"));
  }

  void note_end(const records::Training& training, const records::TrainingResult& result) {
    trials_.on_end(training, result);
    const bool may_go_on = training.epochs > 0;  // methods that train in several steps tidy up at their end
    if (trials_.only_best && !may_go_on && !training.refit) forget_loser(training);
  }

  /// Of a trial that has ended: its checkpoints if it is not the best, else those of the best one before.
  void forget_loser(const records::Training& training) {
    if (!trials_.compared->trials().at(training.trial).has_ended) return;
    const auto best = trials_.compared->best();
    const auto loser = best == training.trial ? best_ : std::optional(training.trial);
    best_ = best;
    if (!loser) return;
    for (const auto& [which, result] : trials_.compared->trials().at(*loser).results) {
      remove_checkpoints({.trial = *loser, .repeat = which.first, .fold = which.second});
    }
  }

  void remove_checkpoints(const records::Training& training) const {
    std::error_code ignored;
    fs::remove_all(records::checkpoints_of(trials_.folder_of(training)), ignored);
  }

  const TrialJob& trials_;
  std::unique_ptr<records::Journal> journal_;
  std::optional<PlanDispatcher> dispatcher_;
  std::optional<std::int64_t> best_;
};

}  // namespace

std::unique_ptr<records::Journal> open_journal(const TrialJob& trials) {
  require_folder(trials);
  make_folder(trials.folder);
  const bool anew = trials.existing == records::Existing::overwrite;
  auto journal = std::make_unique<records::Journal>(records::trial_journal_of(trials.folder),
                                                    anew);  // from here on no other job writes there
  if (anew) remove_made(trials.folder);
  require_begin(*journal, trials.folder);
  if (!journal->entries().empty()) require_same_job(journal->entries().front(), trials);
  // Each time that the job begins or goes on: the seconds of later entries are since then.
  journal->append({{"job", trials.kind}, {"config", trials.identity}, {"folds", trials.folds}});
  return journal;
}

bool run_trials(session::Job& job, const TrialJob& trials) {
  std::optional<TrialDesk> desk;
  if (job.ranks().is_root()) desk.emplace(job, trials);
  make_trainings(job, trials.shape, trials.terms, desk ? &desk->dispatcher() : nullptr);
  const bool is_complete = job.ranks().max(desk && !desk->dispatcher().was_stopped() ? 1 : 0) != 0;
  if (desk && is_complete) desk->tidy();
  return is_complete;
}

}  // namespace unisono::jobs
