#include "run/divergence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "run/training_observer.hpp"
#include "unisono/optim/catalog.hpp"
#include "unisono/parallel/phase.hpp"
#include "unisono/session/evaluator.hpp"

namespace unisono::session {

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
  context_.parts.backend->collect(training.sums);
  kernels::LossSums sums = header_.unreported;
  sums += sum_over_ranks(context_.parts.grid.all(), training.sums);
  divergence_.offer_first_loss(sums, first_step_, /*last=*/due_.report || due_.epoch || due_.checkpoint);
}

void TrainingObserver::check_losses(const kernels::LossSums& sums) {
  if (std::isfinite(sums.loss)) return;
  const std::string before = std::isnan(reported_loss_)
                                 ? ""
                                 : fmt::format(" (it was {:.4g} up to step {})", reported_loss_, header_.reported_step);
  diverge(fmt::format("the loss is {} at step {}{}{}", sums.loss, header_.step, with_rate(), before));
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
    diverge(fmt::format("the {} loss is {} after step {}", data::name_of(split), metric.value, header_.step));
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
