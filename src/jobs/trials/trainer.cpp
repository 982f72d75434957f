#include "trials/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/text.hpp"
#include "unisono/records/run_folder.hpp"
#include "unisono/session/losses.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::jobs {
namespace {

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
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const models::Metric& metric) { return metric.name == terms.metric; });
  return found == metrics.end() ? nullptr : &*found;
}

/// Sets the result's value to that of the metric that counts.
void take_value(const session::RunResult& run, const TrialTerms& terms, records::TrialResult& result) {
  const auto validation = run.evaluations.find(data::Split::validation);
  if (validation == run.evaluations.end()) return;
  const models::Metric* const metric = counted(validation->second, terms);
  if (metric == nullptr) return;
  result.value = metric->value;
  result.larger_is_better = metric->larger_is_better;
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
  return config;
}

records::TrialResult result_of(const session::RunResult& run, const TrialTerms& terms) {
  records::TrialResult result{.metrics = measured(run), .epochs = run.epochs, .steps = run.steps};
  if (run.stopped_early) result.kept_epochs = run.best.step / run.steps_per_epoch;
  take_value(run, terms, result);
  if (run.status == session::RunStatus::diverged) {
    result.status = records::TrialStatus::diverged;
    result.message = run.message;
  } else if (run.status == session::RunStatus::interrupted || run.status == session::RunStatus::stopped) {
    result.status = records::TrialStatus::interrupted;
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

session::RunOptions options_for(const records::TrialTask& task, const data::Fold* fold, Watch& watch) {
  return {.existing = task.goes_on ? records::Existing::resume : records::Existing::overwrite,
          .watching = session::Watching::none,
          .results = task.folder.empty() ? session::Results::nowhere : session::Results::in_folder,
          .takes_over = task.takes_over,
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

void take_epochs(settings::Config& config, std::int64_t epochs) {
  if (epochs == 0) return;
  if (config.schedule.epochs == 0) config.schedule.epochs = config.train.epochs;
  config.train.epochs = epochs;
}

records::TrialResult make_trial_run(session::Job& whole, comm::Communicator& group, const TrialTerms& terms,
                                    const records::TrialTask& task, Dispatcher* dispatcher) {
  Watch watch(terms, task, whole.clock(), dispatcher);
  records::TrialResult result;
  try {
    Log log(group.rank(), false);
    // The run's own messages stay apart: where its ranks find the config impossible, those of the group still match.
    const auto ranks = group.size() > 1 ? group.split(0, group.rank()) : group.alone();
    session::Job job(whole, *ranks, log);
    const auto fold = terms.fold_of ? terms.fold_of(task.run) : std::nullopt;
    session::RunOptions options = options_for(task, fold ? &*fold : nullptr, watch);
    std::vector<float> outputs;
    if (!task.outputs.empty()) options.validation_outputs = &outputs;
    result = result_of(run_in(job, *ranks, config_of(terms, task), options), terms);
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
  set_ = job.open_set(job.ranks(), settings, static_cast<std::uint64_t>(config.seed));
}

data::Dataset& SharedSet::set() const { return **set_; }
const data::DatasetInfo& SharedSet::info() const { return set().info(); }

}  // namespace unisono::jobs
