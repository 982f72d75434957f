#include "run/summarise.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "unisono/base/random.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/session/evaluation.hpp"

namespace unisono::session {
namespace {

Ending ending_of(const TrainingObserver& observer) {
  if (!observer.divergence().empty()) return Ending::diverged;
  if (observer.interrupted()) return Ending::interrupted;
  return observer.minimisation() && observer.minimisation()->has_converged() ? Ending::converged : Ending::complete;
}

std::string batch_statistics(const models::Model& model) {
  if (model.statistics_layout().size() == 0) return "none";
  return model.statistics_are_local() ? "local" : "global";
}

void describe_experiment(const EndedRun& run, Summary& summary) {
  const ModelParts& parts = run.parts;
  summary.steps_per_epoch = run.steps_per_epoch;
  summary.ranks = parts.grid.all().size();
  summary.workers = parts.workers();
  summary.stages = parts.grid.shape().stages;
  summary.threads = parts.placement.threads;
  summary.parameters = parts.model->layout().parameters();
  summary.resumed_at_step = run.header.step;
  summary.tokens_per_example = data::tokens_of_example(run.plan.data().info());
  summary.flops_per_example = parts.model->flops_per_example();
  summary.batch_statistics = batch_statistics(*parts.model);
  summary.device = parts.device();
  summary.choices = run.plan.choices;
  summary.changes = run.header.changes;
  summary.config_hash = hash_bytes(run.header.config);
  summary.data_identity = run.header.data_identity;
  summary.build = run.header.build;
}

/// How many different examples the workers' steps took, where each has examples of its own: its steps go through these
/// once before they repeat any.
std::vector<std::int64_t> examples_of_workers(const RunPlan& plan, const std::vector<std::int64_t>& worker_steps) {
  const data::DatasetInfo& info = plan.data().info();
  if (plan.config.data.partition != data::Partition::fixed || info.kind == data::SetKind::text) return {};
  const int workers = static_cast<int>(worker_steps.size());
  std::vector<std::int64_t> examples;
  for (int worker = 0; worker < workers; ++worker) {
    const auto [first, last] = comm::slice_of(info.train, worker, workers);
    const auto [begin, end] = comm::slice_of(plan.config.train.batch_size, worker, workers);
    examples.push_back(std::min(last - first, worker_steps[static_cast<std::size_t>(worker)] * (end - begin)));
  }
  return examples;
}

void describe_training(const EndedRun& run, Summary& summary) {
  const TrainingObserver& observer = run.observer;
  summary.ending = ending_of(observer);
  summary.resident = run.plan.data().info().resident;
  summary.stopped_early = observer.stopped_early();
  summary.best = observer.best();
  summary.threshold = observer.threshold();
  summary.epochs = observer.steps() / run.steps_per_epoch;
  summary.steps = observer.steps();
  summary.epochs_made =
      static_cast<double>(observer.steps() - run.header.step) / static_cast<double>(run.steps_per_epoch);
  summary.examples = observer.examples();
  summary.train = observer.train_metrics();
  summary.evaluations = observer.evaluations();
  for (const auto& [split, metrics] : summary.evaluations) {
    data::Dataset& data = run.plan.data();
    const std::string text = unseen_text(run.plan.config, *run.parts.model, data, split, data.class_names());
    if (text.empty()) continue;
    summary.unseen[split] = data.unseen(split);
    summary.unseen_texts.push_back(text);
  }
  summary.minimisation = observer.minimisation();
  summary.worker_steps = observer.worker_steps();
  summary.worker_examples = examples_of_workers(run.plan, summary.worker_steps);
}

/// In the order in which all ranks call it.
void gather_measurements(const EndedRun& run, Summary& summary) {
  comm::Communicator& all = run.parts.grid.all();
  Seconds seconds = run.training.seconds;
  seconds.other = run.seconds - seconds.sum();
  count_staged(run.plan, run.training.counters);
  summary.counters = comm::combine(all, run.training.counters, Shown::in_summary);
  summary.seconds = comm::mean_seconds(all, seconds, run.parts.trains());
  summary.peak_memory_bytes = all.max(peak_memory_bytes());
  summary.hosts = hosts_of(all);
  if (!run.training.optimizer || run.parts.held.state == run.parts.held.parameters) return;  // each has all of it
  std::int64_t shard = 0;
  for (const optim::OptimizerState& own : run.training.optimizer->state()) {
    shard += own.values.size() * static_cast<std::int64_t>(sizeof(float));
  }
  summary.shard_bytes = all.max(shard);
  summary.whole_state_bytes = all.sum(shard);
}

}  // namespace

Summary summarise(const EndedRun& run) {
  Summary summary;
  describe_experiment(run, summary);
  describe_training(run, summary);
  gather_measurements(run, summary);
  return summary;
}

RunResult result_of(const Summary& summary, const TrainingObserver& observer, const std::string& name) {
  RunResult result;
  if (summary.ending == Ending::diverged) {
    result.status = RunStatus::diverged;
    result.message = fmt::format("{} diverged: {}", name, observer.divergence());
  } else if (summary.ending == Ending::interrupted) {
    result.status = observer.stop_wish() == StopWish::signal ? RunStatus::interrupted : RunStatus::stopped;
  }
  result.stopped_early = summary.stopped_early;
  result.best = summary.best;
  if (summary.minimisation) result.short_of_convergence = summary.minimisation->short_of_convergence();
  result.steps_per_epoch = summary.steps_per_epoch;
  result.epochs = summary.epochs;
  result.steps = summary.steps;
  result.examples = summary.examples;
  result.examples_per_second = summary.examples_per_second();
  result.train = summary.train;
  result.evaluations = summary.evaluations;
  result.seconds = summary.seconds;
  return result;
}

}  // namespace unisono::session
