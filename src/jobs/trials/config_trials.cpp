#include "trials/config_trials.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>

#include "trials/states.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/losses.hpp"
#include "unisono/session/model_of_config.hpp"
#include "unisono/session/rank_checks.hpp"
#include "unisono/session/selection.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 4> kAlwaysFree = {"output", "data.path", "train.threads",
                                                         "train.report_every_steps"};

bool holds_runs(const JobFolder& folder) {
  std::error_code ignored;
  return std::ranges::any_of(
      folder.runs, [&](const std::string& name) { return fs::exists(fs::path(folder.path) / name, ignored); });
}

/// "cross-validation"
std::string name_of_kind(std::string kind) {
  std::ranges::replace(kind, '_', '-');
  return kind;
}

}  // namespace

ConfigTrials::ConfigTrials(session::Job& job, std::string kind, const ConfigText& text,
                           const models::ModelKinds& models, const settings::PlannedConfig& planned,
                           const TrialOptions& options, const TrialRanks& ranks)
    : job_(job),
      models_(models),
      text_(text),
      planned_(planned),
      folder_(options.output.empty() ? planned.config.run_folder() + "-" + name_of_kind(kind) : options.output),
      set_(job, text_, planned.config),
      kind_(std::move(kind)),
      existing_(options.existing),
      threads_(ranks.threads),
      threads_key_(ranks.threads_key) {
  session::require_same_experiment(job.ranks(), planned.config);
  comm::require_same(job.ranks(), name_of_kind(kind_), hash_bytes(identity()),
                     "give every rank the same config file and the same --set");
  const bool on_gpus = planned.config.device != settings::DeviceChoice::cpu;
  shape_ = slot_shape(job, ranks.ranks, cores_of_training(planned.config, ranks.threads), on_gpus, ranks.ranks_key);
}

JobFolder ConfigTrials::folder() const {
  return {.path = folder_,
          .journal = records::trial_journal_of(folder_),
          .owner = records::FolderOwner::trials,
          .existing = existing_,
          .runs = {"trials", "best", "folds", "final", "outputs"},
          .results = {"trials.csv", "search.json", "best.toml", "folds.csv", "cross_validation.json", "predictions.csv",
                      "predictions.h5", "report.html"}};
}

std::string ConfigTrials::identity() const {
  return effective_config(planned_.config) + settings::effective_plans(planned_.plans);
}

records::TrialResult ConfigTrials::make(comm::Communicator& group, const records::TrialTask& task,
                                        Dispatcher* dispatcher) {
  return make_trial_run(job_, group, terms(), task, dispatcher);
}

void ConfigTrials::begin(records::Journal& journal) {
  require_same_job(journal);
  // Each time that the job begins or goes on: the seconds of later entries are since then.
  journal.append({{"job", kind_}, {"config", identity()}, {"folds", folds()}});
}

void ConfigTrials::require_same_job(const records::Journal& journal) const {
  const bool is_empty = journal.entries().empty();
  if (is_empty ? holds_runs(folder()) : !journal.entries().front().contains("config")) {
    throw CheckpointError(
        fmt::format("{}: it does not begin with a config, so that nobody knows to what the trials in this "
                    "folder belong; begin anew (--overwrite), or choose another folder (--output DIR)",
                    journal.path()));
  }
  if (is_empty) return;
  const nlohmann::json& first = journal.entries().front();
  const std::string kind = first.value("job", "");
  if (kind != kind_) {
    throw CheckpointError(
        fmt::format("{}: holds a {}, not a {}; choose another folder (--output DIR)", folder_, kind, kind_));
  }
  std::vector<std::string> changed = settings::changed_keys(first.at("config").get<std::string>(), identity());
  std::erase_if(changed, [free = free_keys()](const std::string& key) {
    return std::ranges::find(free, key) != free.end() || std::ranges::find(kAlwaysFree, key) != kAlwaysFree.end() ||
           key.starts_with("checkpoint.");
  });
  if (changed.empty()) return;
  throw CheckpointError(
      fmt::format("{}: the config has changed since these trials began, in {}; take the config with "
                  "which they began, or begin anew in another folder (--output DIR)",
                  folder_, fmt::join(changed, ", ")));
}

void ConfigTrials::resume(const records::Journal& journal) {
  try {
    replay(journal.entries(), plan());
  } catch (const CheckpointError& error) {
    throw CheckpointError(fmt::format("{}: {}; begin anew with --overwrite", journal.path(), error.what()));
  }
  say_begin();
  warn_if_crowded(job_, threads_, threads_key_);
}

records::TrialTask ConfigTrials::task_for(const records::TrialRun& training) {
  records::TrialTask task{.run = training, .overrides = overrides(training), .outputs = outputs_of(training)};
  if (!task.outputs.empty()) make_folder(fs::path(task.outputs).parent_path());
  const bool is_result = training.refit && !training.is_nested();
  if (!training.refit && !training.is_nested()) {
    // A model that was trained on all examples before more trials were asked for.
    std::error_code ignored;
    fs::remove_all(folder_of({.refit = true}), ignored);
  }
  if (!keeps_runs() && !is_result) return task;
  task.folder = folder_of(training);
  task.goes_on = has_checkpoint(task.folder);
  return task;
}

void ConfigTrials::note_start(records::Journal& journal, const records::TrialRun& training, double seconds) {
  journal.append({{"started", to_json(training)}, {"at", seconds}});
}

void ConfigTrials::note_end(records::Journal& journal, const records::TrialRun& training,
                            const records::TrialResult& result, double seconds) {
  journal.append({{"ended", to_json(training)}, {"result", to_json(result)}, {"at", seconds}});
}

namespace {

/// A training step takes about as long as so many flops, however small its batch is.
constexpr double kFlopsOfStep = 2e5;

bool makes_longer(const search::Parameter& parameter) {
  return parameter.key.starts_with("model") || parameter.key == "train" || parameter.key == "train.epochs" ||
         parameter.key == "train.batch_size";
}

/// In flops, for each example of the training set.
double work_of(settings::Config config, const data::DatasetInfo& data) {
  session::settle(config, data);
  const double batches = config.train.batch_size > 0 ? 1.0 / static_cast<double>(config.train.batch_size) : 0;
  return static_cast<double>(config.train.epochs) *
         (session::ModelOfConfig(config, data).model().flops_per_example() + kFlopsOfStep * batches);
}

}  // namespace

search::TrialWork work_of_trials(const search::SearchSettings& settings, const search::Space& space,
                                 const ConfigText& text, const models::ModelKinds& models,
                                 const data::DatasetInfo& data) {
  const bool may_end_early = settings.has_target || settings.stop_after_seconds > 0 || settings.median_rule;
  if (may_end_early || std::ranges::none_of(space.parameters(), makes_longer)) return {};
  const auto known =
      std::make_shared<std::map<search::Point, double>>();  // the searches of all outer folds have the same points
  return [&space, &text, &models, &data, known](const search::Point& point) {
    const auto [found, is_new] = known->try_emplace(point, 0);
    if (!is_new) return found->second;
    try {
      found->second = work_of(trials::config_at(text, space.at(point), models), data);
    } catch (const ConfigError&) {  // the trial ends at once with this reason
    }
    return found->second;
  };
}

MetricThatCounts::MetricThatCounts(const std::string& key) : name_(key) {
  constexpr std::string_view kPrefix = "validation.";
  if (key == "auto") return;
  if (!key.starts_with(kPrefix) || key.size() == kPrefix.size()) {
    const bool of_test = key.starts_with("test.");
    throw ConfigError(fmt::format(
        "search.metric = \"{}\": {}; write it as in \"validation.accuracy\", or \"auto\"", key,
        of_test ? "who chooses by the test examples cannot measure with them any more how good the choice is"
                : "trials are compared by a metric of the validation examples"));
  }
  name_ = key.substr(kPrefix.size());
}

void MetricThatCounts::require(const settings::Config& config, const data::DatasetInfo& data, bool has_folds) {
  const std::vector<models::Metric> possible = session::possible_metrics(config, data, data::Split::validation);
  if (name_ == "auto") name_ = session::decisive(possible).name;
  std::string names;
  for (const models::Metric& one : possible) {
    names += (names.empty() ? "" : ", ") + one.name;
    if (one.name != name_) continue;
    larger_is_better_ = one.larger_is_better;
    names.clear();
    break;
  }
  if (!names.empty()) {
    throw ConfigError(
        fmt::format("search.metric = \"validation.{}\": this model has no such metric; it has {}", name_, names));
  }
  if (data.validation > 0 || has_folds) return;
  throw ConfigError(
      fmt::format("{} has no validation examples, by which trials are compared; hold some back with "
                  "data.validation_fraction = 0.1, or set search.cross_validate = true",
                  config.data.path));
}

}  // namespace unisono::jobs
