#include "training_observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "losses.hpp"
#include "run_state.hpp"
#include "unisono/experiment/train.hpp"
#include "unisono/strategies/phase.hpp"
#include "weight_average.hpp"

namespace unisono {
namespace {

std::string_view way_out(bool has_gradients) {
  return has_gradients ? "lower optimizer.learning_rate, warm up (schedule.warmup_epochs), or clip gradients "
                         "(optimizer.clip_norm); earlier checkpoints are whole"
                       : "lower optimizer.learning_rate; earlier checkpoints are whole";
}

bool divides(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

double mean_loss(const LossSums& sums) {
  return sums.examples == 0 ? 0 : sums.loss / static_cast<double>(sums.examples);
}

std::string text_of(const std::vector<Metric>& metrics) {
  std::string text;
  for (const Metric& metric : metrics) {
    text += fmt::format("{}{} {:.4g}", text.empty() ? "" : ", ", metric.name, metric.value);
  }
  return text;
}

}  // namespace

TrainingObserver::TrainingObserver(ObserverContext context)
    : context_(std::move(context)),
      header_(context_.header),
      agreement_(context_.parts.world, context_.signals, header_.step),
      first_step_(header_.step),
      reported_step_(header_.step),
      reported_loss_(std::numeric_limits<double>::quiet_NaN()) {}

bool TrainingObserver::step(const StepRecord& record) {
  last_ = record;
  evaluations_.clear();  // they were of the step before
  examples_ += record.global_size;
  header_.step = record.step;
  header_.worker_steps = record.worker_steps;
  header_.cursor = {.epoch = record.step / context_.steps_per_epoch, .step = record.step % context_.steps_per_epoch};
  context_.parts.world.set_step(record.step);
  note_due(record);
  show_progress();
  if (!record.consistent) return true;
  average_weights();

  if (due_.report || due_.epoch || due_.checkpoint) report();
  if (due_.evaluation) evaluate(judging_split(context_.data.info()));
  if (due_.epoch) say_epoch();
  if (agreement_.next_step() <= header_.step) advance_checkpoint();
  interrupted_ = stop_is_agreed() && epochs_done() < context_.config.train.epochs;
  if (due_.checkpoint && !interrupted_) write_checkpoint();
  due_ = {};
  return !interrupted_;
}

std::int64_t TrainingObserver::next_due(std::int64_t step) const {
  const Config& config = context_.config;
  std::int64_t next = (step / context_.steps_per_epoch + 1) * context_.steps_per_epoch;
  for (const std::int64_t every : {config.train.report_every_steps, config.checkpoint.every_steps}) {
    if (every > 0) next = std::min(next, (step / every + 1) * every);
  }
  // A checkpoint is done only where all ranks meet.
  if (context_.checkpoints.is_writing()) next = std::min(next, std::max(step + 1, agreement_.next_step()));
  return next;
}

void TrainingObserver::note_due(const StepRecord& record) {
  const Config& config = context_.config;
  due_.report |= divides(config.train.report_every_steps, record.step);
  due_.checkpoint |= divides(config.checkpoint.every_steps, record.step);
  if (header_.cursor.step != 0) return;
  due_.epoch = true;
  due_.evaluation |= divides(config.train.evaluate_every_epochs, epochs_done());
  due_.checkpoint |= divides(config.checkpoint.every_epochs, epochs_done());
}

void TrainingObserver::average_weights() {
  if (!context_.training.average) return;
  Seconds& seconds = context_.training.seconds;
  const Phase phase(*context_.parts.backend, seconds, seconds.optimizer);
  context_.training.average->update(header_.step);
}

bool TrainingObserver::stop_is_agreed() {
  Seconds& seconds = context_.training.seconds;
  const Phase phase(*context_.parts.backend, seconds, seconds.exposed_communication);
  return agreement_.agreed(header_.step) != 0;
}

void TrainingObserver::finish() {
  if (reported_step_ != header_.step) report();
  const DatasetInfo& info = context_.data.info();
  for (const Split split : {Split::validation, Split::test}) {
    if (!interrupted_ && examples_of(info, split) > 0 && !evaluations_.contains(split)) evaluate(split);
  }
  if (due_.epoch) say_epoch();
  if (written_step_ != header_.step || newly_best_) write_checkpoint();
  finish_checkpoint();
}

void TrainingObserver::report() {
  TrainingParts& training = context_.training;
  LossSums sums;
  {
    const Phase phase(*context_.parts.backend, training.seconds, training.seconds.exposed_communication);
    context_.parts.backend->collect(training.sums);
    sums = sum_over_ranks(context_.parts.world, std::exchange(training.sums, {}));
  }
  require_finite(sums);
  add_losses(sums);
  Seconds seconds = difference(training.seconds, reported_seconds_);
  seconds.other = since_report_.restart() - seconds.sum();
  reported_seconds_ = training.seconds;
  write_report(sums, mean_over_ranks(context_.parts.world, seconds, context_.parts.trains()), serving_since_report());
  reported_step_ = header_.step;
  reported_examples_ = examples_;
}

/// The sums of an epoch stay until the next one's come.
void TrainingObserver::add_losses(const LossSums& sums) {
  if (epoch_of(reported_step_) != epoch_of(header_.step)) header_.epoch_sums = {};
  header_.epoch_sums += sums;
  reported_loss_ = mean_loss(sums);
}

void TrainingObserver::require_finite(const LossSums& sums) {
  if (std::isfinite(sums.loss)) return;
  const std::string before =
      std::isnan(reported_loss_) ? "" : fmt::format(" (it was {:.4g} up to step {})", reported_loss_, reported_step_);
  fail(fmt::format("the loss is {} at step {}, with optimizer.learning_rate = {:g}{}", sums.loss, header_.step,
                   context_.config.optimizer.learning_rate, before));
}

/// A checkpoint of such a model would be worse than none.
void TrainingObserver::require_finite(Split split, const std::vector<Metric>& metrics) {
  for (const Metric& metric : metrics) {
    if (metric.name != "loss" || std::isfinite(metric.value)) continue;
    fail(fmt::format("the {} loss is {} after step {}", name_of(split), metric.value, header_.step));
  }
}

/// On all ranks alike: a checkpoint of better days is still finished.
void TrainingObserver::fail(const std::string& what) {
  finish_checkpoint();
  throw TrainingError(fmt::format("{}: {}", what, way_out(context_.training.gradient.size() > 0)));
}

ServingReport TrainingObserver::serving_since_report() {
  if (header_.worker_steps.empty()) return {};
  const ServingReport now = gather_serving(context_.parts.world, context_.training.doings.shards);
  return difference(now, std::exchange(reported_serving_, now));
}

void TrainingObserver::write_report(const LossSums& sums, const Seconds& seconds, const ServingReport& serving) {
  const double training_seconds = seconds.sum() - seconds.evaluation - seconds.checkpoint;
  examples_per_second_ = static_cast<double>(examples_ - reported_examples_) / std::max(training_seconds, 1e-9);
  if (context_.records == nullptr) return;
  nlohmann::ordered_json line = {{"event", "train"}, {"step", header_.step}, {"epoch", epoch_of(header_.step)}};
  line.update(to_json(context_.parts.model->metrics(sums)));
  line["learning_rate"] = last_.learning_rate;
  line["examples_per_second"] = examples_per_second_;
  add_norms(line);
  if (!serving.shards.empty()) line["serving"] = brief_json(serving);
  line["seconds"] = to_json(seconds);
  context_.records->metrics.write(line);
}

/// Where there is one gradient of each step.
void TrainingObserver::add_norms(nlohmann::ordered_json& line) const {
  if (context_.training.gradient.size() == 0) return;
  Backend& backend = *context_.parts.backend;
  const double norm = context_.training.optimizer->last_gradient_norm();
  line["gradient_norm"] = norm >= 0 ? norm : std::sqrt(backend.squared_norm(context_.training.gradient.view()));
  line["parameter_norm"] = std::sqrt(backend.squared_norm(context_.parts.parameters.view()));
}

void TrainingObserver::evaluate(Split split) {
  const Stopwatch watch;
  ModelParts& parts = context_.parts;
  if (examples_of(context_.data.info(), split) == 0) return;
  {
    const ScopedTimer timer(context_.training.seconds.evaluation);
    const WeightAverage::InPlace applied(parts, context_.training.average.get());
    evaluations_[split] = evaluate_split(parts, context_.data, split, context_.config.train.evaluation_batch_size);
  }
  require_finite(split, evaluations_[split]);
  if (split == judging_split(context_.data.info())) judge(evaluations_[split]);
  if (context_.records == nullptr) return;
  nlohmann::ordered_json line = {{"event", "evaluation"}, {"step", header_.step}, {"epoch", epochs_done()}};
  line["split"] = name_of(split);
  line.update(to_json(evaluations_[split]));
  line["seconds"] = watch.seconds();
  context_.records->metrics.write(line);
}

void TrainingObserver::judge(const std::vector<Metric>& metrics) {
  const Metric& metric = decisive(metrics);
  if (!std::isfinite(metric.value)) return;  // R² of targets that are all alike
  if (header_.has_best && !is_better(metric, header_.best)) return;
  header_.best = metric.value;
  header_.has_best = true;
  if (context_.config.checkpoint.keep_best) due_.checkpoint = newly_best_ = true;
}

void TrainingObserver::write_checkpoint() {
  const ScopedTimer timer(context_.training.seconds.checkpoint);
  header_.optimizer_steps = context_.training.optimizer->steps();
  context_.checkpoints.write(header_, state_of(context_.parts, context_.training), newly_best_);
  newly_best_ = false;
  written_step_ = header_.step;
}

void TrainingObserver::advance_checkpoint() {
  const ScopedTimer timer(context_.training.seconds.checkpoint);
  context_.checkpoints.advance();
}

void TrainingObserver::finish_checkpoint() {
  const ScopedTimer timer(context_.training.seconds.checkpoint);
  context_.checkpoints.finish();
}

void TrainingObserver::say_epoch() {
  if (context_.records == nullptr) return;
  std::string text =
      fmt::format("epoch {}/{}: train {}", epochs_done(), context_.config.train.epochs, text_of(train_metrics()));
  for (const auto& [split, metrics] : evaluations_) text += fmt::format("; {} {}", name_of(split), text_of(metrics));
  context_.records->progress.line(fmt::format("{}; {} examples/s", text, grouped(std::llround(examples_per_second_))));
}

void TrainingObserver::show_progress() {
  if (context_.records == nullptr) return;
  const std::int64_t epochs = context_.config.train.epochs, steps = epochs * context_.steps_per_epoch;
  const double step_seconds = since_start_.seconds() / static_cast<double>(header_.step - first_step_);
  context_.records->progress.show({.epoch = epoch_of(header_.step),
                                   .epochs = epochs,
                                   .step = header_.step,
                                   .steps = steps,
                                   .loss = reported_loss_,
                                   .examples_per_second = examples_per_second_,
                                   .seconds_left = step_seconds * static_cast<double>(steps - header_.step)});
}

}  // namespace unisono
