#pragma once

#include <cstdint>

#include "unisono/experiment/checkpoint.hpp"

namespace unisono::experiment {

/// Whether a run's training loss has left all reason: it stays above `factor` times the first loss for an epoch.
/// The first loss is the mean over the first steps, of kLeastExamples or more. Small ones count as kLeastFirstLoss, so
/// that a model that begins nearly right, or at 0, may rise a little; in regression as the mean square of the targets,
/// which a model makes that answers 0, so that a few large targets that come late do no harm. All ranks tell it the
/// same, and get the same answers.
class Divergence {
 public:
  static constexpr double kLeastFirstLoss = 0.1;
  static constexpr std::int64_t kLeastExamples = 16;

  /// \param factor 0: nothing is too large \param state what checkpoints keep of it
  Divergence(double factor, std::int64_t steps_per_epoch, DivergenceState& state)
      : factor_(factor), steps_per_epoch_(steps_per_epoch), state_(state) {}

  /// Whether it has no first loss yet, and wants one.
  bool wants_first_loss() const { return factor_ > 0 && !state_.has_first_loss; }
  /// Of all steps since the (re)start at step `since`. \param last whether no more of them will come
  void offer_first_loss(const kernels::LossSums& sums, std::int64_t since, bool last);
  /// Of the steps since the report before. \param step made
  void report(const kernels::LossSums& sums, std::int64_t step);
  bool is_too_large(const kernels::LossSums& sums) const;
  /// Whether the last report was too large.
  bool is_above() const { return is_above_; }
  /// Whether all reports of an epoch were.
  bool has_diverged(std::int64_t step) const { return is_above_ && step - state_.below_until >= steps_per_epoch_; }
  double first_loss() const { return state_.first_loss; }

 private:
  double factor_;
  std::int64_t steps_per_epoch_;
  DivergenceState& state_;
  bool is_above_ = false;
};

}  // namespace unisono::experiment
