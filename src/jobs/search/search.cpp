#include "unisono/jobs/jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trials/config_trials.hpp"
#include "trials/trial_job.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/search/search.hpp"
#include "unisono/session/abilities.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/settings/job_settings.hpp"
#include "unisono/trials/trial_plan.hpp"
#include "validation/splitters.hpp"

namespace unisono::jobs {
namespace {

std::uint64_t seed_of(const settings::Config& config) { return static_cast<std::uint64_t>(config.seed); }

settings::PlannedConfig parse_search(const ConfigText& text, const models::ModelKinds& models) {
  settings::PlannedConfig planned = settings::parse_plans(text, models);
  if (planned.plans.search) return planned;
  throw ConfigError(
      fmt::format("{}: has no section [search]; say there what varies, as docs/search.md shows", text.path));
}

settings::CrossValidationSettings fold_settings(const settings::PlannedConfig& planned) {
  return planned.plans.cross_validation.value_or(settings::CrossValidationSettings{});
}

std::optional<Folds> folds_of(const settings::PlannedConfig& planned) {
  if (!planned.plans.search->cross_validate) return std::nullopt;
  if (planned.config.data.validation_fraction > 0) {
    throw ConfigError(
        "data.validation_fraction: with search.cross_validate, folds of all training examples take turns in "
        "validating; remove it");
  }
  return folds_of_set(fold_settings(planned), planned.config.data);
}

/// Refuses what no trial may have.
void require_trial(const search::SearchSettings& settings, const settings::Config& config) {
  if (!config.train.trains())
    throw ConfigError("train.epochs = 0: the trials of a search must train; set it to 1 or more");
  const std::int64_t every = config.train.evaluate_every_epochs;
  if (!settings.median_rule || (every > 0 && (config.train.steps > 0 || every < config.train.epochs))) return;
  throw ConfigError(
      fmt::format("search.median_rule compares trials after each evaluation, but there is none before "
                  "their end (train.evaluate_every_epochs = {}); set it to 1, or remove median_rule",
                  every));
}

/// Refuses settings of a search that contradict each other.
void require_settings(const settings::PlannedConfig& planned, const data::DatasetInfo& data) {
  const search::SearchSettings& settings = *planned.plans.search;
  const settings::Config& config = planned.config;
  if (search::trains_in_steps(settings.method) && settings.keep == search::KeptTrials::none) {
    throw ConfigError(
        fmt::format("search.keep = \"none\": with search.method = \"{}\", trials go on from their "
                    "checkpoints; set keep = \"best\"",
                    name_of(settings.method, search::kSearchKinds)));
  }
  if (search::trains_in_steps(settings.method) && config.train.steps > 0) {
    throw ConfigError(
        fmt::format("train.steps: search.method = \"{}\" trains its trials for different numbers of epochs: set "
                    "train.epochs, which "
                    "is the largest, and remove train.steps",
                    name_of(settings.method, search::kSearchKinds)));
  }
  require_trial(settings, config);
  if (settings.refit && !settings.cross_validate && config.data.validation_fraction == 0 && data.validation > 0) {
    throw ConfigError(
        fmt::format("search.refit: the validation examples of {} are a group of their own, which training "
                    "cannot join to the training examples; remove refit, or import all as training "
                    "examples and set data.validation_fraction",
                    config.data.path));
  }
}

/// A search from its config to its table.
class Search final : public ConfigTrials {
 public:
  /// Collective over the job. \param planned what `config` says
  Search(session::Job& job, const ConfigText& config, const models::ModelKinds& models, const TrialOptions& options,
         const settings::PlannedConfig& planned);
  session::RunStatus run();
  /// The trials with which it begins, as text.
  std::string list() const;

  trials::Plan& plan() override { return plan_; }
  EndOfTrials end() const override;
  void resume(const records::Journal& journal) override;
  records::TrialTask task_for(const records::TrialRun& training) override;
  void note_end(records::Journal& journal, const records::TrialRun& training, const records::TrialResult& result,
                double seconds) override;
  void ended(const records::TrialRun& training, const records::TrialResult& result) override;

 private:
  const search::SearchSettings& settings() const { return *planned_.plans.search; }
  std::int64_t folds() const override { return plan_.shape().folds; }
  bool keeps_runs() const override { return settings().keep != search::KeptTrials::none; }
  /// Whether trials take over the weights of others.
  bool hands_on() const { return settings().method == search::SearchKind::population; }
  std::vector<std::string_view> free_keys() const override;
  TrialTerms terms() const override;
  std::vector<std::string> overrides(const records::TrialRun& training) const override;
  std::string folder_of(const records::TrialRun& training) const override {
    return trials::trial_folder(folder_, plan_.shape(), training);
  }
  std::optional<data::Fold> fold_of(const records::TrialRun& training) const;
  void require_enough_trials(const records::Journal& journal) const;
  void say_begin() const override;
  void say_end(const records::TrialRun& training) const;
  void forget_loser(const records::TrialRun& training);
  void forget_checkpoints_of(std::int64_t trial) const;
  void tidy() const;
  void write_results(bool is_complete, double seconds) const;
  std::string best_config() const;
  void say_short_of_convergence(std::int64_t trial) const;

  std::optional<Folds> folds_;
  search::Space space_;
  trials::TrialPlan plan_;
  MetricThatCounts metric_;
  std::optional<std::int64_t> best_;  ///< so far, of the trials whose checkpoints are kept
};

Search::Search(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
               const TrialOptions& options, const settings::PlannedConfig& planned)
    : ConfigTrials(job, "search", config, models, planned, options,
                   {.ranks = planned.plans.search->ranks_per_trial,
                    .threads = planned.plans.search->threads_per_trial,
                    .ranks_key = "search.ranks_per_trial",
                    .threads_key = "search.threads_per_trial"}),
      folds_(folds_of(planned_)),
      space_(settings().space),
      plan_(search::make_search_method(settings(), space_, seed_of(planned_.config), planned_.config.train.epochs,
                                       work_of_trials(settings(), space_, text_, models, set_.info())),
            {.repeats = settings().repeats, .folds = folds_ ? folds_->size() : 0, .refit = settings().refit}),
      metric_(settings().metric) {
  if (folds_) set_.set().fold_view(folds_->fold(0));  // says what makes folds impossible
  metric_.require(planned_.config, set_.set(), folds_.has_value(), goes_on());
  settings::grid_shape(planned_.config, static_cast<int>(settings().ranks_per_trial));
  if (job.ranks().is_root())
    session::check(planned_.config, {.ranks = static_cast<int>(settings().ranks_per_trial),
                                     .with_folds = folds_.has_value(),
                                     .in_older_job = goes_on()});
  require_settings(planned_, set_.info());
  require_space(space_, text_, settings(), models_, [this](const auto& trial) { require_trial(settings(), trial); });
}

std::string Search::list() const {
  const auto method =  // by number, and not those first that take longest
      search::make_search_method(settings(), space_, seed_of(planned_.config), planned_.config.train.epochs);
  std::string text;
  std::int64_t listed = 0;
  for (auto step = method->next(); step; step = method->next(), ++listed) {
    method->started(*step);
    text += fmt::format("{}trial {}:", listed == 0 ? "" : "\n", step->trial);
    for (const search::Assignment& one : space_.at(method->point(step->trial))) {
      text += fmt::format(" {} = {}", one.key, toml_text(one.value));
    }
  }
  if (listed < method->trials()) text += fmt::format("\nand {} that depend on results", method->trials() - listed);
  return text;
}

std::vector<std::string_view> Search::free_keys() const {
  return {"search.trials",
          "search.keep",
          "search.refit",
          "search.stop_after_seconds",
          "search.target",
          "search.trial_seconds",
          "search.threads_per_trial"};
}

std::vector<std::string> Search::overrides(const records::TrialRun& training) const {
  std::vector<std::string> changes = trials::trial_overrides(space_, plan_, planned_.config.seed, training);
  if (training.refit) changes.insert(changes.end(), kRefitOverrides.begin(), kRefitOverrides.end());
  return changes;
}

std::optional<data::Fold> Search::fold_of(const records::TrialRun& training) const {
  return folds_ && training.fold >= 0 ? std::optional(folds_->fold(training.fold)) : std::nullopt;
}

/// No trial is beyond the last one that the config asks for.
void Search::require_enough_trials(const records::Journal& journal) const {
  std::int64_t begun = 0;
  for (const auto& entry : journal.entries()) {
    if (entry.contains("started")) begun = std::max(begun, records::trial_run_from(entry.at("started")).trial + 1);
  }
  if (begun <= plan_.method().trials()) return;
  throw ConfigError(fmt::format("search.trials = {}, but trial {} has begun in this folder; raise it to at least {}",
                                plan_.method().trials(), begun - 1, begun));
}

void Search::resume(const records::Journal& journal) {
  require_enough_trials(journal);
  ConfigTrials::resume(journal);
}

records::TrialTask Search::task_for(const records::TrialRun& training) {
  if (training.copied) take_over(folder_of({.trial = *training.copied}), training.epochs, folder_of(training));
  records::TrialTask task = ConfigTrials::task_for(training);
  task.takes_over = hands_on();
  return task;
}

void Search::say_begin() const {
  job_.log().info(fmt::format("{}: {} by {}, {} at a time, by {}", folder_, count_of(plan_.method().trials(), "trial"),
                              name_of(settings().method, search::kSearchKinds), at_a_time(), metric_.text()));
  const bool draws = settings().method == search::SearchKind::random || settings().method == search::SearchKind::sobol;
  for (const std::string& note : search::notes_on(space_, draws ? plan_.method().trials() : 0))
    job_.log().warning(note);
  if (folds_) {
    const std::string note = note_on_groups(fold_settings(planned_), planned_.config.data);
    if (!note.empty()) job_.log().warning(note);
  }
  if (plan_.method().depends_on_timing()) {
    job_.log().info(
        "which trials are trained for how long depends on the order in which they end: another run of this "
        "search may give another table");
  }
}

/// Called on rank 0 after a training.
void Search::say_end(const records::TrialRun& training) const {
  if (training.refit && plan_.refitted()->status != records::TrialStatus::complete) return;  // write_results says why
  if (training.refit) return job_.log().info("the best trial was trained again on all examples: " + folder_ + "/best");
  const trials::TrialRecord& trial = plan_.trials().at(training.trial);
  if (!trial.has_ended) return;
  const auto best = plan_.best();
  const std::string ending = trial.status == records::TrialStatus::complete
                                 ? fmt::format("{} {}", metric_.text(), records::metric_text(trial.value, 6))
                                 : fmt::format("{}: {}", name_of(trial.status, records::kTrialStatuses), trial.message);
  const std::string epochs = training.epochs > 0 ? fmt::format(" after {}", count_of(training.epochs, "epoch")) : "";
  job_.log().info(fmt::format("trial {}: {}{} ({}); {:.1f} s{}", training.trial, ending, epochs,
                              trials::trial_text(space_, plan_, training.trial), trial.seconds,
                              best ? fmt::format("; best so far: trial {}", *best) : ""));
}

EndOfTrials Search::end() const {
  EndOfTrials end{.seconds = settings().stop_after_seconds, .median_rule = settings().median_rule};
  if (settings().has_target) end.loss = metric_.larger_is_better() ? -settings().target : settings().target;
  return end;
}

TrialTerms Search::terms() const {
  return {.config = set_.text(),
          .models = models_,
          .fold_of = [this](const records::TrialRun& training) { return fold_of(training); },
          .metric = metric_.name(),
          .threads = settings().threads_per_trial,
          .seconds = settings().trial_seconds,
          .reports_epochs = settings().median_rule,
          .in_older_job = goes_on()};
}

void Search::note_end(records::Journal& journal, const records::TrialRun& training, const records::TrialResult& result,
                      double seconds) {
  // Before the journal says that it has ended: the state must be there if the job is killed then.
  if (hands_on() && !training.refit) keep_state(folder_of(training), training.epochs);
  ConfigTrials::note_end(journal, training, result, seconds);
}

void Search::ended(const records::TrialRun& training, const records::TrialResult&) {
  say_end(training);
  const bool may_go_on = training.epochs > 0;  // methods that train in several steps tidy up at their end
  if (settings().keep == search::KeptTrials::best && !may_go_on && !training.refit) forget_loser(training);
}

/// Of a trial that has ended: its checkpoints if it is not the best, else those of the best one before.
void Search::forget_loser(const records::TrialRun& training) {
  if (!plan_.trials().at(training.trial).has_ended) return;
  const auto best = plan_.best();
  const auto loser = best == training.trial ? best_ : std::optional(training.trial);
  best_ = best;
  if (loser) forget_checkpoints_of(*loser);
}

void Search::forget_checkpoints_of(std::int64_t trial) const {
  for (const auto& [which, result] : plan_.trials().at(trial).results)
    remove_checkpoints(folder_of({.trial = trial, .repeat = which.first, .fold = which.second}));
}

/// Removes what only trials that go on need, and the checkpoints that are not kept.
void Search::tidy() const {
  for (const auto& [number, trial] : plan_.trials()) {
    if (hands_on()) remove_states(folder_of({.trial = number}));
    if (settings().keep == search::KeptTrials::best && plan_.best() != number) forget_checkpoints_of(number);
  }
}

session::RunStatus Search::run() {
  const Stopwatch watch(job_.runtime());
  const bool is_complete = run_trials(job_, *this);
  if (job_.ranks().is_root() && is_complete) tidy();
  if (job_.ranks().is_root()) write_results(is_complete, watch.seconds());
  return is_complete ? session::RunStatus::complete : session::RunStatus::interrupted;
}

/// The config of the best trial, which trains as it did: as long as it was trained, too.
std::string Search::best_config() const {
  ConfigText text = set_.text();
  for (const std::string& change : overrides({.trial = *plan_.best()})) text.overrides.push_back(change);
  settings::Config config = settings::parse_config(text, models_);
  config.name = planned_.config.name + "-best";
  config.output = "";
  config.train.threads = settings().threads_per_trial;
  take_epochs(config, plan_.trials().at(*plan_.best()).step.epochs);
  return effective_config(config);
}

/// Says on rank 0 where the trainings of a trial by a method for the whole training set ended before they converged.
void Search::say_short_of_convergence(std::int64_t trial) const {
  const auto& results = plan_.trials().at(trial).results;
  const auto is_short = [](const auto& one) { return !one.second.short_of_convergence.empty(); };
  const auto found = std::ranges::find_if(results, is_short);
  if (found == results.end()) return;
  job_.log().warning(
      fmt::format("trial {}: {} of {} ended short of convergence: {}; more of them may change the choice", trial,
                  std::ranges::count_if(results, is_short), count_of(std::ssize(results), "training"),
                  found->second.short_of_convergence));
}

/// Called on rank 0.
void Search::write_results(bool is_complete, double seconds) const {
  const trials::TrialTable table{
      .plan = plan_, .space = space_, .metric = metric_.text(), .at_a_time = at_a_time(), .seconds = seconds};
  records::write_text_file(folder_ + "/trials.csv", table.csv());
  records::write_text_file(folder_ + "/search.json", table.json(is_complete).dump(2) + "\n");
  const auto best = plan_.best();
  if (!is_complete) {
    const auto ended = std::ranges::count_if(plan_.trials(), [](const auto& one) { return one.second.has_ended; });
    return job_.log().info(fmt::format("{}: stopped; {} of {} have ended; --resume goes on", folder_, ended,
                                       count_of(plan_.method().trials(), "trial")));
  }
  if (plan_.trials().empty()) {
    throw session::TrainingError(
        fmt::format("{}: no trial has begun within search.stop_after_seconds = {}; raise it, and go on "
                    "with --resume",
                    folder_, settings().stop_after_seconds));
  }
  if (!best) {
    throw session::TrainingError(fmt::format("{}: no trial was trained to its end; trials.csv says why, e.g. {}",
                                             folder_, plan_.trials().begin()->second.message));
  }
  const std::string changed = settings().method == search::SearchKind::population
                                  ? "\n# with its last settings, which have changed while it was trained"
                                  : "";
  records::write_text_file(folder_ + "/best.toml",
                           fmt::format("# trial {} of {}: {} = {}{}\n{}", *best, folder_, metric_.text(),
                                       plan_.trials().at(*best).value, changed, best_config()));
  const auto begun = std::ssize(plan_.trials()), wanted = plan_.method().trials();
  job_.log().info(fmt::format("{}: best of {}{}: trial {}, {} {:.6g} ({}); its config is {}/best.toml", folder_,
                              begun < wanted ? fmt::format("{} of ", begun) : "", count_of(wanted, "trial"), *best,
                              metric_.text(), plan_.trials().at(*best).value, trials::trial_text(space_, plan_, *best),
                              folder_));
  say_short_of_convergence(*best);
  const auto& refitted = plan_.refitted();
  if (!refitted || refitted->status == records::TrialStatus::complete) return;
  throw session::TrainingError(
      fmt::format("{}: the best trial could not be trained again on all examples: {}", folder_, refitted->message));
}

}  // namespace

session::RunStatus search(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                          const TrialOptions& options) {
  return Search(job, config, models, options, parse_search(config, models)).run();
}

session::RunStatus list_trials(session::Job& job, const ConfigText& config, const models::ModelKinds& models,
                               const TrialOptions& options) {
  const Search search(job, config, models, options, parse_search(config, models));
  if (job.ranks().is_root()) job.log().info(search.list());
  return session::RunStatus::complete;
}

}  // namespace unisono::jobs
