#include "run/training_observer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "unisono/comm/communicator.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/session/run_state.hpp"
#include "unisono/session/weight_average.hpp"

namespace unisono::session {
namespace {

bool divides(std::int64_t every, std::int64_t count) { return every > 0 && count % every == 0; }

double mean_loss(const kernels::LossSums& sums) {
  return sums.examples == 0 ? 0 : sums.loss / static_cast<double>(sums.examples);
}

/// What a checkpoint holds of the sums of each rank. Collective.
std::vector<kernels::LossSums> sums_by_rank(comm::Communicator& ranks, const kernels::LossSums& own) {
  const std::vector<double> sums = {own.loss, own.squared_error, own.absolute_error, own.target_sum,
                                    own.target_squared_sum};
  const std::vector<std::int64_t> counts = {own.examples, own.correct, own.correct_top5, own.values, own.bytes};
  const auto all_sums = ranks.all_gather_vectors(sums);
  const auto all_counts = ranks.all_gather_vectors(counts);
  std::vector<kernels::LossSums> by_rank;
  for (std::size_t rank = 0; rank < all_sums.size(); ++rank) {
    const auto& sum = all_sums[rank];
    const auto& count = all_counts[rank];
    by_rank.push_back({.loss = sum[0],
                       .examples = count[0],
                       .correct = count[1],
                       .correct_top5 = count[2],
                       .squared_error = sum[1],
                       .absolute_error = sum[2],
                       .target_sum = sum[3],
                       .target_squared_sum = sum[4],
                       .values = count[3],
                       .bytes = count[4]});
  }
  return by_rank;
}

kernels::LossSums sum_of(const std::vector<kernels::LossSums>& by_rank) {
  kernels::LossSums sum;
  for (const kernels::LossSums& one : by_rank) sum += one;
  return sum;
}

}  // namespace

TrainingObserver::TrainingObserver(ObserverContext context)
    : context_(std::move(context)),
      header_(context_.header),
      pace_(context_.plan.config.checkpoint.hours_between_failures * 3600, context_.clock),
      agreement_(context_.parts.grid.all(), context_.wish, header_.step, context_.clock,
                 [this] { return pace_.is_due() && !context_.kept.is_busy(); }),
      divergence_(context_.plan.config.train.divergence, context_.steps_per_epoch, header_.divergence),
      selection_(context_.criteria, context_.plan.config.train.early_stopping, header_),
      first_step_(header_.step),
      reported_worker_steps_(header_.worker_steps),
      since_start_(context_.clock),
      since_report_(context_.clock),
      reported_loss_(std::numeric_limits<double>::quiet_NaN()) {}

bool TrainingObserver::step(const strategies::StepRecord& record) {
  last_ = record;
  evaluations_.clear();  // those of the previous step
  header_.evaluation_due = false;
  examples_ += record.global_size;
  header_.step = record.step;
  header_.worker_steps = record.worker_steps;
  header_.cursor = {.epoch = record.step / context_.steps_per_epoch, .step = record.step % context_.steps_per_epoch};
  context_.parts.grid.all().set_step(record.step);
  due_ |= due_at(record.step);
  const bool reports = record.consistent && due_.any();
  note_first_loss();
  if (reports) report();
  check_iteration();
  show_progress(reports);
  if (!record.consistent) return true;
  average_weights();

  if (due_.evaluation && !has_diverged()) evaluate_and_judge();
  if ((due_.epoch || due_.evaluation) && !has_diverged() && !header_.evaluation_due) say_metrics();
  if (agreement_.next_step() <= header_.step) advance_checkpoint();
  const bool converged = record.iteration && record.iteration->end != optim::BatchEnd::none;
  const bool ends = has_diverged() || stopped_early_ || converged;
  stop_wish_ = header_.evaluation_due ? StopWish::signal : agreed_wish();
  interrupted_ = header_.evaluation_due || (stop_wish_ != StopWish::none && header_.step < total_steps() && !ends);
  // A checkpoint of a diverging model would displace a good one.
  const bool is_worth_it = !has_diverged() && !divergence_.is_above() && (!stopped_early_ || newly_best_);
  if (!interrupted_ && is_worth_it) {
    if (due_.checkpoint) {
      write_checkpoint();
    } else if (agreement_.wants_checkpoint() && !ends) {
      write_between_reports();
    } else if (due_.copy && !ends) {
      copy_between_reports();
    }
  }
  due_ = {};
  return !interrupted_ && !stopped_early_ && !has_diverged();
}

std::int64_t TrainingObserver::next_due(std::int64_t step) const {
  const settings::Config& config = context_.plan.config;
  std::int64_t next = (step / context_.steps_per_epoch + 1) * context_.steps_per_epoch;
  for (const std::int64_t every : {config.train.report_every_steps, config.train.evaluate_every_steps,
                                   config.checkpoint.every_steps, config.checkpoint.memory_every_steps}) {
    if (every > 0) next = std::min(next, (step / every + 1) * every);
  }
  // Strategies that make many steps between two synchronisations make only one at first, so that speed and loss are
  // shown soon. Not where ranks go at their own pace: an additional synchronisation would change their parameters.
  if (step == first_step_ && !traits_of(config.strategy).at_own_pace) next = std::min(next, step + 1);
  // A checkpoint is completed only when all ranks synchronise.
  if (context_.kept.is_busy()) next = std::min(next, std::max(step + 1, agreement_.next_step()));
  return next;
}

bool TrainingObserver::reads_gradient(std::int64_t step) const {
  return due_.any() || due_at(step + 1).any() || step + 1 == total_steps();
}

TrainingObserver::Due TrainingObserver::due_at(std::int64_t step) const {
  const settings::Config& config = context_.plan.config;
  Due due{.report = divides(config.train.report_every_steps, step),
          .evaluation = divides(config.train.evaluate_every_steps, step),
          .checkpoint = divides(config.checkpoint.every_steps, step),
          .copy = divides(config.checkpoint.memory_every_steps, step)};
  if (step % context_.steps_per_epoch != 0) return due;
  const std::int64_t epochs = step / context_.steps_per_epoch;
  due.epoch = true;
  due.evaluation |= divides(config.train.evaluate_every_epochs, epochs);
  due.checkpoint |= divides(config.checkpoint.every_epochs, epochs);
  return due;
}

void TrainingObserver::average_weights() {
  if (!context_.training.average) return;
  Seconds& seconds = context_.training.seconds;
  const parallel::Phase phase(*context_.parts.backend, seconds, seconds.optimizer, context_.clock);
  context_.training.average->update(header_.step);
}

StopWish TrainingObserver::agreed_wish() {
  Seconds& seconds = context_.training.seconds;
  const parallel::Phase phase(*context_.parts.backend, seconds, seconds.exposed_communication, context_.clock);
  return agreement_.agreed(header_.step);
}

bool TrainingObserver::make_up_evaluation() {
  if (!std::exchange(header_.evaluation_due, false)) return true;
  due_.evaluation = true;
  evaluate_and_judge();
  if (!has_diverged() && !header_.evaluation_due) say_metrics();
  interrupted_ = header_.evaluation_due;
  if (interrupted_) stop_wish_ = StopWish::signal;
  const bool goes_on = !interrupted_ && !stopped_early_ && !has_diverged();
  if (goes_on && due_.checkpoint) write_checkpoint();
  due_ = {};
  return goes_on;
}

void TrainingObserver::write_checkpoint_of_start() {
  keep_unreported();
  if (!has_diverged()) write_checkpoint();
}

void TrainingObserver::finish() {
  const bool ends_with_best = stopped_early_ && header_.has_best;
  if (!interrupted_) header_.evaluation_due = false;
  if (ends_with_best) evaluations_.clear();  // those were of the last weights
  if (header_.reported_step != header_.step && !has_diverged()) interrupted_ ? keep_unreported() : report();
  if (!interrupted_) check_end();
  for (const data::Split split : {data::Split::validation, data::Split::test}) {
    if (!interrupted_ && !has_diverged() && !evaluations_.contains(split)) evaluate(split);
    if (!header_.evaluation_due) continue;
    interrupted_ = true;
    stop_wish_ = StopWish::signal;
  }
  if (!interrupted_ && !stopped_early_ && !has_diverged()) judge();
  const bool ends_within_epoch = header_.step == total_steps() && header_.cursor.step != 0;
  if ((due_.epoch || (ends_within_epoch && said_step_ != header_.step)) && !has_diverged()) say_metrics();
  const bool is_written = ends_with_best || (written_step_ == header_.step && !newly_best_ && !header_.evaluation_due &&
                                             written_threshold_ == header_.threshold);
  if (!has_diverged() && !is_written) write_checkpoint();
  finish_checkpoint();
}

std::vector<models::Metric> TrainingObserver::train_metrics() const {
  kernels::LossSums sums = sum_of(header_.unreported);
  const bool same_epoch = epoch_of(header_.reported_step) == epoch_of(header_.step);
  if (same_epoch || sums.examples == 0) sums += header_.epoch_sums;
  return context_.parts.model->metrics(sums);
}

/// This rank's losses since the last report, complete; none where another rank counts them.
kernels::LossSums& TrainingObserver::counted_losses() {
  kernels::LossSums& sums = context_.training.sums;
  context_.parts.backend->collect(sums);
  if (!context_.parts.counts_losses()) sums = {};
  return sums;
}

/// Losses of the steps since the last report, over all ranks.
kernels::LossSums TrainingObserver::collect_losses() {
  TrainingParts& training = context_.training;
  const parallel::Phase phase(*context_.parts.backend, training.seconds, training.seconds.exposed_communication,
                              context_.clock);
  return sum_over_ranks(context_.parts.grid.all(), std::exchange(counted_losses(), {}));
}

/// Stores losses that an interrupted run has not reported; the resumed run includes them in its next report.
void TrainingObserver::keep_unreported() {
  header_.unreported = sums_by_rank(context_.parts.grid.all(), counted_losses());
  check_losses(sum_of(header_.unreported));
}

void TrainingObserver::report() {
  TrainingParts& training = context_.training;
  const kernels::LossSums sums = collect_losses();
  check_losses(sums);
  if (has_diverged()) return;
  add_losses(sums);
  divergence_.report(sums, header_.step);
  Seconds seconds = training.seconds - reported_seconds_;
  seconds.other = since_report_.restart() - seconds.sum();
  reported_seconds_ = training.seconds;
  write_report(sums, comm::mean_seconds(context_.parts.grid.all(), seconds, context_.parts.trains()));
  header_.reported_step = header_.step;
  reported_worker_steps_ = header_.worker_steps;
  reported_examples_ = examples_;
  if (divergence_.has_diverged(header_.step)) {
    diverge(fmt::format(
        "the loss is {:.4g} at step {}{}: for an epoch it was more than {:g} times the first one, {:.3g} "
        "(train.divergence)",
        reported_loss_, header_.step, with_rate(), context_.plan.config.train.divergence, divergence_.first_loss()));
  }
}

/// Adds to the sums of the epoch, which are kept until the next epoch's first report.
void TrainingObserver::add_losses(const kernels::LossSums& sums) {
  if (epoch_of(header_.reported_step) != epoch_of(header_.step)) header_.epoch_sums = {};
  header_.epoch_sums += sums;
  reported_loss_ = mean_loss(sums);
}

/// What was counted since the last report, on all ranks. Collective.
CounterSet TrainingObserver::counted_since_report() {
  count_staged(context_.plan, context_.training.counters);
  CounterSet now = comm::combine(context_.parts.grid.all(), context_.training.counters, Shown::in_metrics);
  const CounterSet before = std::exchange(reported_counters_, now);
  return difference(now, before);
}

void TrainingObserver::write_report(const kernels::LossSums& sums, const Seconds& seconds) {
  const double training_seconds = seconds.sum() - seconds.evaluation - seconds.checkpoint;
  examples_per_second_ = static_cast<double>(examples_ - reported_examples_) / std::max(training_seconds, 1e-9);
  nlohmann::ordered_json norms = norms_now();
  const CounterSet counted = counted_since_report();
  if (!writes_metrics()) return;
  nlohmann::ordered_json line = {{"event", "train"},
                                 {"step", header_.step},
                                 {"epoch", epoch_of(header_.step)},
                                 {"steps_per_epoch", context_.steps_per_epoch}};
  line.update(records::to_json(context_.parts.model->metrics(sums)));
  if (!last_.iteration) line["learning_rate"] = last_.learning_rate;
  line["examples_per_second"] = examples_per_second_;
  line.update(norms);
  line.update(records::to_json(counted, Shown::in_metrics));
  line["seconds"] = records::to_json(seconds);
  context_.records->metrics->write(line);
}

/// Whether rank 0 made a step since the last report. Ranks at their own pace may leave all of them to others.
bool TrainingObserver::made_a_step() const {
  const std::vector<std::int64_t>&now = header_.worker_steps, &before = reported_worker_steps_;
  if (now.empty()) return true;
  return now.front() != (before.size() == now.size() ? before.front() : 0);
}

/// The norms of θ and, if a step has one gradient and not one of each thread, of g, for ranks that write them.
/// Collective over a pipeline, and over all ranks where the optimizer is sharded.
nlohmann::ordered_json TrainingObserver::norms_now() const {
  ModelParts& parts = context_.parts;
  auto norms = nlohmann::ordered_json::object();
  if (!context_.training.has_gradient || (!parts.norms_are_collective() && !writes_metrics())) return norms;
  if (last_.iteration) {
    norms.update(to_json(*last_.iteration));
    norms["passes"] = last_.iteration->passes;
    norms["parameter_norm"] = std::sqrt(parts.squared_norm(parts.parameters.view()));
    return norms;
  }
  if (!traits_of(context_.plan.config.strategy).shares_model && last_.gradient_is_whole && made_a_step()) {
    const double norm = context_.training.optimizer->last_gradient_norm();
    norms["gradient_norm"] =
        norm >= 0 ? norm : std::sqrt(parts.squared_gradient_norm(context_.training.gradient.view()));
  }
  norms["parameter_norm"] = std::sqrt(parts.squared_norm(parts.parameters.view()));
  return norms;
}

/// Asks whether a signal came that an evaluation is given up for. Not where the state after it could not be resumed.
std::function<bool()> TrainingObserver::ended_by_signal() const {
  if (!context_.kept.is_lasting() || stopped_early_ || context_.plan.config.whole_batch()) return {};
  return [this] { return context_.wish() == StopWish::signal; };
}

void TrainingObserver::evaluate(data::Split split) {
  const Stopwatch watch(context_.clock);
  ModelParts& parts = context_.parts;
  if (examples_of(context_.plan.data().info(), split) == 0) return;
  {
    const ScopedTimer timer(context_.training.seconds.evaluation, context_.clock);
    const WeightAverage::InPlace applied(parts, context_.training.average.get());
    auto found = evaluate_of_run(parts, context_.plan.data(), split, context_.plan.config, ended_by_signal());
    header_.evaluation_due = !found;
    if (!found) return;
    evaluations_[split] = std::move(found->metrics);
    if (!found->undefined) check_evaluation(split, evaluations_[split]);
    if (split == data::Split::validation) take_threshold(found->threshold);
  }
  if (!writes_metrics() || has_diverged()) return;
  nlohmann::ordered_json line = {{"event", "evaluation"}, {"step", header_.step}, {"epoch", epochs_done()}};
  line["split"] = data::name_of(split);
  line.update(records::to_json(evaluations_[split]));
  if (split == data::Split::validation && threshold_) line["threshold"] = threshold_->threshold;
  if (stopped_early_ && header_.has_best) line["weights_of_step"] = header_.best_by.step;
  line["seconds"] = watch.seconds();
  context_.records->metrics->write(line);
}

/// The next checkpoints have it.
void TrainingObserver::take_threshold(const std::optional<records::ChosenThreshold>& threshold) {
  threshold_ = threshold;
  header_.threshold.reset();
  if (threshold) header_.threshold = threshold->threshold;
}

void TrainingObserver::evaluate_and_judge() {
  const data::DatasetInfo& info = context_.plan.data().info();
  for (const data::Split split : {data::Split::validation, data::Split::test}) {
    const bool wanted = split == watched_split(info) || selection_.needs(split);
    if (wanted && !has_diverged() && !header_.evaluation_due) evaluate(split);
  }
  if (has_diverged() || header_.evaluation_due) return;
  judge();
  const auto validation = evaluations_.find(data::Split::validation);
  if (context_.evaluated && validation != evaluations_.end() && header_.cursor.step == 0)
    context_.evaluated(epochs_done(), validation->second);
  stopped_early_ = selection_.wants_to_stop() && header_.step < total_steps();
}

/// Judges at most once per step, and never a diverging model.
void TrainingObserver::judge() {
  if (judged_step_ == header_.step || divergence_.is_above()) return;
  judged_step_ = header_.step;
  const std::vector<models::Metric> train = train_metrics();
  const bool is_best = selection_.judge([&](data::Split split) -> const std::vector<models::Metric>* {
    if (split == data::Split::train) return &train;
    const auto found = evaluations_.find(split);
    return found == evaluations_.end() ? nullptr : &found->second;
  });
  if (is_best) due_.checkpoint = newly_best_ = true;
  if (selection_.undefined().empty() || std::exchange(said_undefined_, true) || context_.records == nullptr) return;
  context_.records->progress.line(
      fmt::format("{} is undefined after {}: such an evaluation counts neither as the best nor as an improvement",
                  selection_.undefined(), place_text(header_.step, context_.steps_per_epoch)));
}

/// Checks the parameters, and completes the header that is stored with them. \return whether the model may be stored
bool TrainingObserver::is_storable() {
  if (!parameters_are_finite()) {
    diverge(fmt::format("parameters are not finite after step {}", header_.step));
    return false;
  }
  const TrainingParts& training = context_.training;
  if (training.optimizer) header_.optimizer_steps = training.optimizer->steps();
  if (training.method) header_.method = training.method->scalars();
  header_.strategy = context_.parts.strategy->scalars();
  return true;
}

void TrainingObserver::write_checkpoint() {
  const ScopedTimer timer(context_.training.seconds.checkpoint, context_.clock);
  if (!is_storable()) return;
  if (context_.before_checkpoint) context_.before_checkpoint(header_.step);
  pace_.note(context_.training.seconds.checkpoint);
  context_.kept.keep(header_, state_of(context_.parts, context_.training), newly_best_);
  if (!context_.plan.config.checkpoint.in_background) context_.kept.finish();
  newly_best_ = false;
  written_step_ = header_.step;
  written_threshold_ = header_.threshold;
}

/// In the nodes' memory; the losses since the last report go with the state.
void TrainingObserver::copy_between_reports() {
  if (header_.reported_step != header_.step) keep_unreported();
  if (!has_diverged()) {
    const ScopedTimer timer(context_.training.seconds.checkpoint, context_.clock);
    if (is_storable()) context_.kept.copy(header_, state_of(context_.parts, context_.training));
  }
  header_.unreported.clear();
}

/// A checkpoint at a step that nothing else is due at; the losses since the last report go with it.
void TrainingObserver::write_between_reports() {
  if (header_.reported_step != header_.step) keep_unreported();
  if (!has_diverged()) write_checkpoint();
  header_.unreported.clear();
  if (said_pace_ || pace_.cost() == 0 || context_.records == nullptr) return;
  said_pace_ = true;
  context_.records->progress.line(
      fmt::format("a checkpoint about every {} from here on: each costs {}, and a failure is expected every {:g} hours",
                  duration_text(pace_.interval()), duration_text(pace_.cost()),
                  context_.plan.config.checkpoint.hours_between_failures));
}

void TrainingObserver::advance_checkpoint() {
  const ScopedTimer timer(context_.training.seconds.checkpoint, context_.clock);
  context_.kept.advance();
}

void TrainingObserver::finish_checkpoint() {
  const ScopedTimer timer(context_.training.seconds.checkpoint, context_.clock);
  context_.kept.finish();
  context_.kept.count(context_.training.counters);
}

void Divergence::offer_first_loss(const kernels::LossSums& sums, std::int64_t since, bool last) {
  const bool enough = sums.examples >= kLeastExamples || (last && sums.examples > 0);
  if (!wants_first_loss() || !enough || !std::isfinite(sums.loss)) return;
  state_ = {.has_first_loss = true, .first_loss = sums.loss / static_cast<double>(sums.examples), .below_until = since};
}

void Divergence::report(const kernels::LossSums& sums, std::int64_t step) {
  is_above_ = is_too_large(sums);
  if (!is_above_) state_.below_until = step;
}

bool Divergence::is_too_large(const kernels::LossSums& sums) const {
  if (factor_ == 0 || !state_.has_first_loss || sums.examples == 0) return false;
  const double of_zero = sums.values == 0 ? 0 : sums.target_squared_sum / static_cast<double>(sums.values);
  const double reference = std::max({state_.first_loss, kLeastFirstLoss, of_zero});
  return !(sums.loss / static_cast<double>(sums.examples) <= factor_ * reference);
}

// TrainingObserver: how a run detects divergence from its losses, evaluations and parameters; with the same result on
// all ranks.

namespace {

std::string_view way_out(const settings::Config& config, bool has_gradients) {
  if (optim::traits_of(config.optimizer).alternating) {
    return "raise model.user_l2 and model.item_l2, and check the ratings: with tiny penalties, or huge ratings or a "
           "huge "
           "model.confidence, the equations cannot be solved in float32";
  }
  if (config.whole_batch()) return "start from other parameters (seed, train.initialise_from), and check the examples";
  return has_gradients ? "start again with a lower optimizer.learning_rate, a warm-up (schedule.warmup_epochs) or "
                         "clipped gradients (optimizer.clip_norm)"
                       : "start again with a lower optimizer.learning_rate";
}

}  // namespace

/// Determines the first loss as soon as enough examples were seen, independently of reports, and even while the ranks
/// hold different models.
void TrainingObserver::note_first_loss() {
  if (!divergence_.wants_first_loss()) return;
  TrainingParts& training = context_.training;
  const parallel::Phase phase(*context_.parts.backend, training.seconds, training.seconds.exposed_communication,
                              context_.clock);
  const kernels::LossSums sums = sum_over_ranks(context_.parts.grid.all(), counted_losses());
  divergence_.offer_first_loss(sums, first_step_, /*last=*/due_.any());
}

namespace {

/// A NaN has a sign that says nothing.
std::string loss_text(double loss) { return std::isnan(loss) ? "nan" : fmt::format("{}", loss); }

}  // namespace

void TrainingObserver::check_losses(const kernels::LossSums& sums) {
  if (std::isfinite(sums.loss)) return;
  const std::string before = std::isnan(reported_loss_)
                                 ? ""
                                 : fmt::format(" (it was {:.4g} up to step {})", reported_loss_, header_.reported_step);
  diverge(fmt::format("the loss is {} at step {}{}{}", loss_text(sums.loss), header_.step, with_rate(), before));
}

/// A whole-batch method leaves no point with a finite loss for one without.
void TrainingObserver::check_iteration() {
  if (has_diverged() || !last_.iteration || last_.iteration->end != optim::BatchEnd::not_finite) return;
  diverge("the loss or its gradient is not finite at the start");
}

/// ", with optimizer.learning_rate = 0.1"; nothing where there is none.
std::string TrainingObserver::with_rate() const {
  if (context_.plan.config.whole_batch()) return {};
  return fmt::format(", with optimizer.learning_rate = {:g}", context_.plan.config.optimizer.learning_rate);
}

void TrainingObserver::check_evaluation(data::Split split, const std::vector<models::Metric>& metrics) {
  for (const models::Metric& metric : metrics) {
    if (metric.name != "loss" || std::isfinite(metric.value)) continue;
    diverge(
        fmt::format("the {} loss is {} after step {}", data::name_of(split), loss_text(metric.value), header_.step));
  }
}

/// At the end of a run a loss that is 1000 times too large counts as divergence, even if it was so for less than an
/// epoch.
void TrainingObserver::check_end() {
  if (has_diverged() || !divergence_.is_above()) return;
  constexpr double kBeyondMeasure = 1000;
  kernels::LossSums thousandth = header_.epoch_sums;
  thousandth.loss /= kBeyondMeasure;
  if (!divergence_.is_too_large(thousandth)) return;
  const double loss = header_.epoch_sums.loss / static_cast<double>(header_.epoch_sums.examples);
  diverge(fmt::format(
      "the loss of the last epoch is {:.4g}{}: more than {:g} times the first one, {:.3g} (train.divergence)", loss,
      with_rate(), context_.plan.config.train.divergence, divergence_.first_loss()));
}

/// Needed in addition to the loss, because a step's loss is computed before its update. Collective.
bool TrainingObserver::parameters_are_finite() {
  ModelParts& parts = context_.parts;
  const bool finite = std::isfinite(parts.backend->squared_norm(parts.parameters.view()));
  return parts.grid.all().max(finite ? 0 : 1) == 0;
}

void TrainingObserver::diverge(const std::string& what) {
  interrupted_ = false;
  diverged_ = fmt::format("{}: {}", what, way_out(context_.plan.config, context_.training.has_gradient));
  if (!context_.kept.is_lasting()) return;
  const bool has_checkpoints = written_step_ >= 0 || first_step_ > 0;
  diverged_ += has_checkpoints ? "; earlier checkpoints are kept" : "; there is no checkpoint yet";
}

}  // namespace unisono::session
