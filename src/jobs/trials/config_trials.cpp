#include "trials/config_trials.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <new>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/random.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/records/metrics_log.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/evaluation.hpp"
#include "unisono/session/method.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run_checks.hpp"
#include "unisono/session/settled.hpp"
#include "unisono/trials/trial_plan.hpp"

namespace unisono::jobs {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 6> kAlwaysFree = {
    "output", "data.path", "data.stage", "data.stage_bytes", "train.threads", "train.report_every_steps"};

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

/// A training step takes about as long as so many flops, however small its batch is.
constexpr double kFlopsOfStep = 2e5;

bool makes_longer(const search::Parameter& parameter) {
  return parameter.key.starts_with("model") || parameter.key == "train" || parameter.key == "train.epochs" ||
         parameter.key == "train.steps" || parameter.key == "train.batch_size";
}

/// How often a run goes through the training set.
double passes_of(const settings::TrainSettings& train, const data::DatasetInfo& data) {
  const optim::Length length = train.length();
  const double of_step = static_cast<double>(std::max<std::int64_t>(1, train.batch_size)) /
                         static_cast<double>(std::max<std::int64_t>(1, data.train));
  return static_cast<double>(length.count) * (length.in_steps ? of_step : 1);
}

/// In flops, for each example of the training set.
double work_of(const settings::Config& given, const data::DatasetInfo& data) {
  const settings::Config config = session::settle(given, data).config;
  const double batches = config.train.batch_size > 0 ? 1.0 / static_cast<double>(config.train.batch_size) : 0;
  return passes_of(config.train, data) *
         (session::ModelOfConfig(config, data).model().flops_per_example() + kFlopsOfStep * batches);
}

std::vector<records::MeasuredMetric> measured(const session::RunResult& run) {
  std::vector<records::MeasuredMetric> all;
  for (const auto& [split, metrics] : run.evaluations) {
    for (const models::Metric& metric : metrics) {
      all.push_back({split, metric.name, metric.value, metric.larger_is_better});
    }
  }
  return all;
}

/// The metric that counts; null where it was not measured.
const models::Metric* counted(const std::vector<models::Metric>& metrics, const TrialTerms& terms) {
  if (terms.metric == "auto" && !metrics.empty()) return &session::decisive(metrics);
  return models::find_metric(metrics, terms.metric);
}

/// Sets the result's value to that of the metric that counts; NaN where it is undefined, and then returns false.
bool take_value(const session::RunResult& run, const TrialTerms& terms, records::TrialResult& result) {
  const auto validation = run.evaluations.find(data::Split::validation);
  if (validation == run.evaluations.end()) return true;
  const models::Metric* const metric = counted(validation->second, terms);
  if (metric == nullptr || !std::isfinite(metric->value)) {
    result.value = std::numeric_limits<double>::quiet_NaN();
    return false;
  }
  result.value = metric->value;
  result.larger_is_better = metric->larger_is_better;
  return true;
}

settings::Config config_of(const TrialTerms& terms, const records::TrialTask& task) {
  ConfigText text = terms.config;
  text.overrides.insert(text.overrides.end(), task.overrides.begin(), task.overrides.end());
  settings::Config config = settings::parse_config(text, terms.models);
  config.train.threads = terms.threads;
  // Lock-free threads that are left open would otherwise take the cores of the trainings beside.
  if (traits_of(config.strategy).shares_model && config.strategy.threads == 0) config.strategy.threads = terms.threads;
  if (!task.folder.empty()) config.output = task.folder;
  take_epochs(config, task.run.epochs);
  if (terms.require) terms.require(config);
  // So that it is computed, however long that takes.
  if (!models::is_usual(terms.metric) || terms.metric == "auc") config.metrics.show.push_back(terms.metric);
  return config;
}

/// A refitted model was chosen before: it has other metrics where the one that counts is undefined.
records::TrialResult result_of(const session::RunResult& run, const TrialTerms& terms, bool refit) {
  records::TrialResult result{.metrics = measured(run), .epochs = run.epochs, .steps = run.steps};
  if (run.stopped_early) result.kept_epochs = (run.best.step + run.steps_per_epoch - 1) / run.steps_per_epoch;
  result.short_of_convergence = run.short_of_convergence;
  const bool is_defined = take_value(run, terms, result);
  if (run.status == session::RunStatus::diverged) {
    result.status = records::TrialStatus::diverged;
    result.message = run.message;
  } else if (run.status == session::RunStatus::interrupted || run.status == session::RunStatus::stopped) {
    result.status = records::TrialStatus::interrupted;
  } else if (!is_defined && terms.must_be_defined && !refit) {
    result.status = records::TrialStatus::failed;
    result.message = fmt::format(
        "validation {} is undefined for these validation examples, as where all have one class or one target",
        terms.metric);
  }
  return result;
}

/// Why a training ends before its last epoch.
enum class Early { no, too_long, pruned };

/// Follows a training, and decides whether it goes on. Only the group's rank 0 decides.
class Watch {
 public:
  Watch(const TrialTerms& terms, const records::TrialTask& task, const Clock& clock, Dispatcher* dispatcher)
      : terms_(terms), task_(task), dispatcher_(dispatcher), watch_(clock) {}

  bool must_stop() {
    if (dispatcher_ == nullptr) return false;
    if (terms_.seconds > 0 && watch_.seconds() > terms_.seconds && early_ == Early::no) early_ = Early::too_long;
    return early_ != Early::no || dispatcher_->wants_stop();
  }

  void note(std::int64_t epochs, const std::vector<models::Metric>& metrics) {
    const models::Metric* const metric = counted(metrics, terms_);
    if (dispatcher_ == nullptr || !terms_.reports_epochs || metric == nullptr) return;
    const double loss = metric->larger_is_better ? -metric->value : metric->value;
    if (!dispatcher_->goes_on(task_.run, epochs, loss)) early_ = Early::pruned;
  }

  Early early() const { return early_; }
  double seconds() const { return watch_.seconds(); }

 private:
  const TrialTerms& terms_;
  const records::TrialTask& task_;
  Dispatcher* dispatcher_;
  Stopwatch watch_;
  Early early_ = Early::no;
};

session::RunOptions options_for(const records::TrialTask& task, const TrialTerms& terms, const data::Fold* fold,
                                Watch& watch) {
  return {.existing = task.goes_on ? records::Existing::resume : records::Existing::overwrite,
          .watching = session::Watching::none,
          .results = task.folder.empty() ? session::Results::nowhere : session::Results::in_folder,
          .takes_over = task.takes_over,
          .in_older_job = terms.in_older_job,
          .fold = fold,
          .stop = [&watch] { return watch.must_stop(); },
          .evaluated = [&watch](std::int64_t epochs, const auto& metrics) { watch.note(epochs, metrics); }};
}

/// The same on all ranks of the group, of which rank 0 knows.
void take_end(comm::Communicator& group, const TrialTerms& terms, Early early, records::TrialResult& result) {
  const auto agreed = static_cast<Early>(group.max(static_cast<std::int64_t>(early)));
  if (agreed == Early::no || result.status != records::TrialStatus::interrupted) return;
  const bool pruned = agreed == Early::pruned;
  result.status = pruned ? records::TrialStatus::pruned : records::TrialStatus::failed;
  result.message = pruned
                       ? fmt::format("worse than the median of other trials after {}", count_of(result.epochs, "epoch"))
                       : fmt::format("it took longer than {} s", terms.seconds);
}

/// The raw floats. \throws OutputError
void write_outputs(const std::string& path, const std::vector<float>& outputs) {
  std::string bytes(outputs.size() * sizeof(float), ' ');
  if (!bytes.empty()) std::memcpy(bytes.data(), outputs.data(), bytes.size());
  records::write_text_file(path, bytes);
}

/// Runs it; a run that is complete already, but of which the journal does not know, is made once more.
session::RunResult run_in(session::Job& job, comm::Communicator& ranks, const settings::Config& config,
                          session::RunOptions options) {
  session::RunResult result = run(job, ranks, config, options);
  if (result.status != session::RunStatus::already_complete) return result;
  options.existing = records::Existing::overwrite;
  return run(job, ranks, config, options);
}

}  // namespace

namespace {

/// The config with which a job began; empty: it has not begun, or its journal is not that of such a job.
std::string first_config(const std::string& folder) {
  const std::string path = records::trial_journal_of(folder);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return "";
  try {
    const auto entries = records::read_journal(path);
    return entries.empty() ? "" : entries.front().value("config", "");
  } catch (const std::exception&) {
    return "";  // who opens the journal says what is wrong
  }
}

/// The config of a job that goes on, as it was when the job began: versions without data.split_by held out single
/// examples for validation. Collective.
settings::PlannedConfig as_before(session::Job& job, settings::PlannedConfig planned, const std::string& folder,
                                  records::Existing existing, ConfigText& text) {
  data::SplitBy& split_by = planned.config.data.split_by;
  if (existing != records::Existing::resume || split_by != data::SplitBy::automatic) return planned;
  const std::string config = job.ranks().broadcast_text(job.ranks().is_root() ? first_config(folder) : "");
  if (config.empty() || !settings::value_of_key(config, "data.split_by").empty()) return planned;
  split_by = data::SplitBy::rows;
  text.overrides.emplace_back("data.split_by=\"rows\"");
  return planned;
}

}  // namespace

ConfigTrials::ConfigTrials(session::Job& job, std::string kind, const ConfigText& text,
                           const models::ModelKinds& models, const settings::PlannedConfig& planned,
                           const TrialOptions& options, const TrialRanks& ranks)
    : job_(job),
      models_(models),
      text_(text),
      folder_(options.output.empty() ? planned.config.run_folder() + "-" + name_of_kind(kind) : options.output),
      planned_(as_before(job, planned, folder_, options.existing, text_)),
      set_(job, text_, planned_.config),
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
  journal.append({{"job", kind_}, {"config", identity()}, {"folds", folds()}, {"data", data_identity()}});
}

std::string ConfigTrials::data_identity() const { return identity_text(set_.info().identity); }

void ConfigTrials::require_same_job(const records::Journal& journal) const {
  const bool is_empty = journal.entries().empty();
  if (is_empty ? holds_runs(folder()) : !journal.entries().front().contains("config")) {
    throw CheckpointError(
        fmt::format("{}: it does not begin with a config, so that nobody knows to what the trials in this "
                    "folder belong; begin anew (--overwrite), or choose another folder (--output DIR)",
                    journal.path()));
  }
  if (is_empty) return optim::require_base_rate(planned_.config.schedule);
  const nlohmann::json& first = journal.entries().front();
  const std::string kind = first.value("job", "");
  if (kind != kind_) {
    throw CheckpointError(
        fmt::format("{}: holds a {}, not a {}; choose another folder (--output DIR)", folder_, kind, kind_));
  }
  require_same_data(folder_, first, planned_.config.data.path, data_identity());
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

void require_space(const search::Space& space, const ConfigText& given, const search::SearchSettings& settings,
                   const models::ModelKinds& models, const std::function<void(const settings::Config&)>& require) {
  search::require_free_keys(space, search::trains_in_steps(settings.method));
  search::require_values(
      space, [&](const std::vector<search::Assignment>& values) { require(trials::config_at(given, values, models)); });
}

MetricThatCounts::MetricThatCounts(const std::string& key) {
  const auto [split, name] = records::split_and_metric(key);
  name_ = name;
  if (split && *split != data::Split::validation) {
    const bool of_test = *split == data::Split::test;
    throw ConfigError(fmt::format(
        "search.metric = \"{}\": {}; write it as in \"validation.accuracy\", or \"auto\"", key,
        of_test ? "who chooses by the test examples cannot measure with them any more how good the choice is"
                : "trials are compared by a metric of the validation examples"));
  }
}

void MetricThatCounts::require(const settings::Config& config, data::Dataset& set, bool has_folds, bool in_older_job) {
  const data::DatasetInfo& data = set.info();
  const std::vector<models::Metric> possible = session::possible_metrics(config, data, data::Split::validation);
  const models::Metric* const found =
      name_ == "auto" ? &session::decisive(possible) : models::find_metric(possible, name_);
  if (found == nullptr) {
    throw ConfigError(fmt::format("search.metric = \"validation.{}\": this model has no such metric; it has {}", name_,
                                  session::metric_names(possible)));
  }
  name_ = found->name;
  larger_is_better_ = found->larger_is_better;
  if (has_folds) return;
  if (data.validation > 0) {
    if (!in_older_job) session::require_defined(config, set, data::Split::validation, name_, "search.metric");
    return;
  }
  throw ConfigError(
      fmt::format("{} has no validation examples, by which trials are compared; hold some back with "
                  "data.validation_fraction = 0.1, or set search.cross_validate = true",
                  config.data.path));
}

void take_epochs(settings::Config& config, std::int64_t epochs) {
  if (epochs == 0) return;
  if (!config.schedule.has_own_length())
    (config.train.steps > 0 ? config.schedule.steps : config.schedule.epochs) = config.train.length().count;
  config.train.epochs = epochs;
  config.train.steps = 0;
}

records::TrialResult make_trial_run(session::Job& whole, comm::Communicator& group, const TrialTerms& terms,
                                    const records::TrialTask& task, Dispatcher* dispatcher) {
  Watch watch(terms, task, whole.runtime(), dispatcher);
  records::TrialResult result;
  try {
    Log log(group.rank(), false);
    // The run's own messages stay apart: where its ranks find the config impossible, those of the group still match.
    const auto ranks = group.size() > 1 ? group.split(0, group.rank()) : group.alone();
    session::Job job(whole, *ranks, log);
    const auto fold = terms.fold_of ? terms.fold_of(task.run) : std::nullopt;
    session::RunOptions options = options_for(task, terms, fold ? &*fold : nullptr, watch);
    std::vector<float> outputs;
    if (!task.outputs.empty()) options.validation_outputs = &outputs;
    result = result_of(run_in(job, *ranks, config_of(terms, task), options), terms, task.run.refit);
    if (!task.outputs.empty() && ranks->is_root()) write_outputs(task.outputs, outputs);
  } catch (const ConfigError& error) {
    result = {.status = records::TrialStatus::refused, .message = error.what()};
  } catch (const DataError& error) {  // the same on all ranks, which read the same examples
    result = {.status = records::TrialStatus::failed, .message = error.what()};
  } catch (const std::bad_alloc&) {
    if (group.size() > 1) throw;
    result = {.status = records::TrialStatus::failed, .message = "there is not enough memory"};
  }
  take_end(group, terms, watch.early(), result);
  result.seconds = watch.seconds();
  return result;
}

SharedSet::SharedSet(session::Job& job, ConfigText& text, const settings::Config& config) : text_(text) {
  data::DataSettings settings = config.data;
  if (settings.arrangement_seed < 0) {
    settings.arrangement_seed = config.seed;
    text_.overrides.push_back(fmt::format("data.arrangement_seed={}", config.seed));
  }
  job.stage_set(job.ranks(), settings);
  set_ = job.open_set(job.ranks(), settings, static_cast<std::uint64_t>(config.seed));
}

data::Dataset& SharedSet::set() const { return **set_; }
const data::DatasetInfo& SharedSet::info() const { return set().info(); }

}  // namespace unisono::jobs
