// TrainingObserver: what is shown of a run while it trains.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "run/training_observer.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/models/objective.hpp"
#include "unisono/records/metrics_log.hpp"

namespace unisono::session {
namespace {

/// "; largest gradient 1.2e-05, step 1": nothing for other steps than those of whole-batch methods.
std::string text_of(const std::optional<optim::BatchIteration>& iteration) {
  if (!iteration) return {};
  if (iteration->gradient_magnitude < 0) return fmt::format("; objective {:.8g}", iteration->value);
  return fmt::format("; objective {:.8g}, largest gradient {:.3g}, step {:.3g}", iteration->value,
                     iteration->gradient_magnitude, iteration->step_length);
}

std::string text_of(const std::vector<models::Metric>& metrics) {
  std::string text;
  for (const models::Metric& metric : metrics) {
    if (!metric.shown) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", metric.name, records::metric_text(metric.value, 4));
  }
  return text;
}

}  // namespace

void TrainingObserver::say_metrics() {
  said_step_ = header_.step;
  if (context_.records == nullptr) return;
  const bool is_epoch = header_.cursor.step == 0;
  std::string text = is_epoch ? fmt::format("epoch {}/{}", epochs_done(), epoch_of(total_steps()))
                              : fmt::format("step {}/{}", grouped(header_.step), grouped(total_steps()));
  text += fmt::format(": train {}", text_of(train_metrics()));
  for (const auto& [split, metrics] : evaluations_)
    text += fmt::format("; {} {}", data::name_of(split), text_of(metrics));
  context_.records->progress.line(
      fmt::format("{}{}; {}", text, text_of(last_.iteration),
                  records::speed_text(examples_per_second_, data::tokens_of_example(context_.plan.data().info()))));
  if (said_crowded_ || !kernels::threads_lacked_cores()) return;
  said_crowded_ = true;
  context_.records->progress.line(
      fmt::format("the {} of rank 0 have no cores of their own: loops take fewer where that is faster",
                  count_of(context_.parts.backend->threads(), "thread")));
}

std::optional<Minimisation> TrainingObserver::minimisation() const {
  if (!last_.iteration) return {};
  const bool goes_on = last_.iteration->end == optim::BatchEnd::none;
  Minimisation reached{
      .last = *last_.iteration, .interrupted = interrupted_ && goes_on, .stopped_early = stopped_early_};
  models::Convex* const convex = context_.parts.model->convex();
  if (convex == nullptr || !convex->loss_vanishes_at_infinity() || !convex->penalties().empty()) return reached;
  reached.separable = context_.plan.config.optimizer.weight_decay == 0 && header_.epoch_sums.examples > 0 &&
                      header_.epoch_sums.correct == header_.epoch_sums.examples;
  return reached;
}

/// The last reported loss; before the first report, that of this rank's examples so far.
double TrainingObserver::shown_loss() {
  if (!std::isnan(reported_loss_)) return reported_loss_;
  context_.parts.backend->collect(context_.training.sums);
  kernels::LossSums sums = context_.training.sums;
  sums.unsettle();
  return sums.examples == 0 ? reported_loss_ : sums.loss / static_cast<double>(sums.examples);
}

double TrainingObserver::shown_rate() const {
  if (examples_per_second_ > 0) return examples_per_second_;
  return static_cast<double>(examples_) / std::max(since_start_.seconds(), 1e-9);
}

/// \param reported whether this step was reported
void TrainingObserver::show_progress(bool reported) {
  if (context_.records == nullptr || !context_.records->progress.is_due(reported)) return;
  const std::int64_t steps = total_steps();
  const double step_seconds = since_start_.seconds() / static_cast<double>(header_.step - first_step_);
  context_.records->progress.show({.epoch = epoch_of(header_.step),
                                   .epochs = epoch_of(steps),
                                   .step = header_.step,
                                   .steps = steps,
                                   .loss = shown_loss(),
                                   .examples_per_second = shown_rate(),
                                   .tokens_per_example = data::tokens_of_example(context_.plan.data().info()),
                                   .seconds_left = step_seconds * static_cast<double>(steps - header_.step)});
}

}  // namespace unisono::session
