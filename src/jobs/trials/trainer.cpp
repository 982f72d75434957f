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
const models::Metric* counted(const std::vector<models::Metric>& metrics, const TrainingTerms& terms) {
  if (terms.metric == "auto" && !metrics.empty()) return &session::decisive(metrics);
  const auto found = std::find_if(metrics.begin(), metrics.end(),
                                  [&](const models::Metric& metric) { return metric.name == terms.metric; });
  return found == metrics.end() ? nullptr : &*found;
}

/// Sets the result's value to that of the metric that counts.
void take_value(const session::RunResult& run, const TrainingTerms& terms, records::TrainingResult& result) {
  const auto validation = run.evaluations.find(data::Split::validation);
  if (validation == run.evaluations.end()) return;
  const models::Metric* const metric = counted(validation->second, terms);
  if (metric == nullptr) return;
  result.value = metric->value;
  result.larger_is_better = metric->larger_is_better;
}

settings::Config config_of(const TrainingTerms& terms, const records::TrainingOrder& order) {
  ConfigText text = terms.config;
  text.overrides.insert(text.overrides.end(), order.overrides.begin(), order.overrides.end());
  settings::Config config = settings::parse_config(text, terms.models);
  config.train.threads = terms.threads;
  // Lock-free threads that are left open would otherwise take the cores of the trainings beside.
  if (traits_of(config.strategy).shares_model && config.strategy.threads == 0) config.strategy.threads = terms.threads;
  if (!order.folder.empty()) config.output = order.folder;
  take_epochs(config, order.training.epochs);
  return config;
}

records::TrainingResult result_of(const session::RunResult& run, const TrainingTerms& terms) {
  records::TrainingResult result{.metrics = measured(run), .epochs = run.epochs, .steps = run.steps};
  if (run.stopped_early) result.kept_epochs = run.best.step / run.steps_per_epoch;
  take_value(run, terms, result);
  if (run.status == session::RunStatus::diverged) {
    result.status = records::TrainingStatus::diverged;
    result.message = run.message;
  } else if (run.status == session::RunStatus::interrupted || run.status == session::RunStatus::stopped) {
    result.status = records::TrainingStatus::interrupted;
  }
  return result;
}

/// Why a training ends before its last epoch.
enum class Early { no, too_long, pruned };

/// Follows a training, and decides whether it goes on. Only the group's rank 0 decides.
class Watch {
 public:
  Watch(const TrainingTerms& terms, const records::TrainingOrder& order, const Clock& clock, Dispatcher* dispatcher)
      : terms_(terms), order_(order), dispatcher_(dispatcher), watch_(clock) {}

  bool must_stop() {
    if (dispatcher_ == nullptr) return false;
    if (terms_.seconds > 0 && watch_.seconds() > terms_.seconds && early_ == Early::no) early_ = Early::too_long;
    return early_ != Early::no || dispatcher_->wants_stop();
  }

  void note(std::int64_t epochs, const std::vector<models::Metric>& metrics) {
    const models::Metric* const metric = counted(metrics, terms_);
    if (dispatcher_ == nullptr || !terms_.reports_epochs || metric == nullptr) return;
    const double loss = metric->larger_is_better ? -metric->value : metric->value;
    if (!dispatcher_->goes_on(order_.training, epochs, loss)) early_ = Early::pruned;
  }

  Early early() const { return early_; }
  double seconds() const { return watch_.seconds(); }

 private:
  const TrainingTerms& terms_;
  const records::TrainingOrder& order_;
  Dispatcher* dispatcher_;
  Stopwatch watch_;
  Early early_ = Early::no;
};

session::RunOptions options_for(const records::TrainingOrder& order, const data::Fold* fold, Watch& watch) {
  return {.existing = order.goes_on ? records::Existing::resume : records::Existing::overwrite,
          .watching = session::Watching::none,
          .results = order.folder.empty() ? session::Results::nowhere : session::Results::in_folder,
          .takes_over = order.takes_over,
          .fold = fold,
          .stop = [&watch] { return watch.must_stop(); },
          .evaluated = [&watch](std::int64_t epochs, const auto& metrics) { watch.note(epochs, metrics); }};
}

/// The same on all ranks of the group, of which rank 0 knows.
void take_end(comm::Communicator& group, const TrainingTerms& terms, Early early, records::TrainingResult& result) {
  const auto agreed = static_cast<Early>(group.max(static_cast<std::int64_t>(early)));
  if (agreed == Early::no || result.status != records::TrainingStatus::interrupted) return;
  const bool pruned = agreed == Early::pruned;
  result.status = pruned ? records::TrainingStatus::pruned : records::TrainingStatus::failed;
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

records::TrainingResult make_training(session::Job& whole, comm::Communicator& group, const TrainingTerms& terms,
                                      const records::TrainingOrder& order, Dispatcher* dispatcher) {
  Watch watch(terms, order, whole.clock(), dispatcher);
  records::TrainingResult result;
  try {
    Log log(group.rank(), false);
    // The run's own messages stay apart: where its ranks find the config impossible, those of the group still match.
    const auto ranks = group.size() > 1 ? group.split(0, group.rank()) : group.alone();
    session::Job job(whole, *ranks, log);
    const auto fold = terms.fold_of ? terms.fold_of(order.training) : std::nullopt;
    session::RunOptions options = options_for(order, fold ? &*fold : nullptr, watch);
    std::vector<float> outputs;
    if (!order.outputs.empty()) options.validation_outputs = &outputs;
    result = result_of(run_in(job, *ranks, config_of(terms, order), options), terms);
    if (!order.outputs.empty() && ranks->is_root()) write_outputs(order.outputs, outputs);
  } catch (const ConfigError& error) {
    result = {.status = records::TrainingStatus::refused, .message = error.what()};
  } catch (const DataError& error) {  // the same on all ranks, which read the same examples
    result = {.status = records::TrainingStatus::failed, .message = error.what()};
  } catch (const std::bad_alloc&) {
    if (group.size() > 1) throw;
    result = {.status = records::TrainingStatus::failed, .message = "there is not enough memory"};
  }
  take_end(group, terms, watch.early(), result);
  result.seconds = watch.seconds();
  return result;
}

}  // namespace unisono::jobs
