#include "trials/trainer.hpp"

#include <fmt/format.h>

#include <new>
#include <utility>

#include "run/losses.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::experiment {
namespace {

std::vector<MeasuredMetric> measured(const RunResult& run) {
  std::vector<MeasuredMetric> all;
  for (const auto& [split, metrics] : run.evaluations) {
    for (const models::Metric& metric : metrics) {
      all.push_back({split, metric.name, metric.value, metric.larger_is_better});
    }
  }
  return all;
}

/// Sets the result's value to that of the metric that counts.
void take_value(const RunResult& run, const TrainingTerms& terms, TrainingResult& result) {
  const auto validation = run.evaluations.find(data::Split::validation);
  if (validation == run.evaluations.end()) return;
  for (const models::Metric& metric : validation->second) {
    const bool counts = metric.name == terms.metric ||
                        (terms.metric == "auto" && metric.name == decisive(validation->second).name);
    if (!counts) continue;
    result.value = metric.value;
    result.larger_is_better = metric.larger_is_better;
  }
  if (run.stopped_early && !run.best.criterion.empty()) result.value = run.best.value;
}

Config config_of(const TrainingTerms& terms, const TrainingOrder& order) {
  ConfigText text = terms.config;
  text.overrides.insert(text.overrides.end(), order.overrides.begin(), order.overrides.end());
  Config config = parse_config(text, terms.models);
  config.train.threads = terms.threads;
  if (!order.folder.empty()) config.output = order.folder;
  return config;
}

TrainingResult result_of(const RunResult& run, const TrainingTerms& terms) {
  TrainingResult result{.metrics = measured(run), .epochs = run.epochs, .steps = run.steps};
  take_value(run, terms, result);
  if (run.status == RunStatus::diverged) {
    result.status = TrainingStatus::diverged;
    result.message = run.message;
  } else if (run.status == RunStatus::interrupted || run.status == RunStatus::stopped) {
    result.status = TrainingStatus::interrupted;
  }
  return result;
}

RunOptions options_for(const TrainingTerms& terms, const TrainingOrder& order, std::function<bool()> stop) {
  const std::int64_t fold = order.training.fold;
  return {.existing = order.goes_on ? Existing::resume : Existing::overwrite,
          .watching = Watching::none,
          .results = terms.leaves_nothing ? Results::nowhere : Results::in_folder,
          .fold = fold < 0 ? nullptr : &terms.folds.at(static_cast<std::size_t>(fold)),
          .stop = std::move(stop)};
}

}  // namespace

TrainingResult make_training(Job& whole, comm::Communicator& group, const TrainingTerms& terms,
                             const TrainingOrder& order, const std::function<bool()>& stop) {
  const Stopwatch watch(whole.clock());
  bool took_too_long = false;
  const auto must_stop = [&] {
    if (!group.is_root()) return false;
    took_too_long = terms.seconds > 0 && watch.seconds() > terms.seconds;
    return took_too_long || stop();
  };
  TrainingResult result;
  try {
    Log log(group.rank(), false);
    // The run's own messages stay apart: where its ranks find the config impossible, those of the group still match.
    const auto ranks = group.size() > 1 ? group.split(0, group.rank()) : group.alone();
    Job job(whole, *ranks, log);
    result = result_of(run(job, *ranks, config_of(terms, order), options_for(terms, order, must_stop)), terms);
  } catch (const ConfigError& error) {
    result = {.status = TrainingStatus::refused, .message = error.what()};
  } catch (const std::bad_alloc&) {
    if (group.size() > 1) throw;
    result = {.status = TrainingStatus::failed, .message = "there is not enough memory"};
  }
  if (group.sum(static_cast<std::int64_t>(took_too_long)) > 0) {
    result.status = TrainingStatus::failed;
    result.message = fmt::format("it took longer than {} s", terms.seconds);
  }
  result.seconds = watch.seconds();
  return result;
}

}  // namespace unisono::experiment
