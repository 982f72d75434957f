#pragma once

#include <cstdint>

#include "unisono/session/checkpoint.hpp"

namespace unisono::session {

/// Detects divergence: the reported training loss stays above `factor` times a reference for a whole epoch. The
/// reference is the first loss, the mean over the first steps with at least kLeastExamples examples. It is at least
/// kLeastFirstLoss, so that the loss of a model that begins nearly right may rise a little. In regression it is at
/// least the targets' mean square, the loss of a model that predicts 0, so that a few large targets late in an epoch do
/// no harm. Called with the same arguments on all ranks, with the same results.
class Divergence {
 public:
  static constexpr double kLeastFirstLoss = 0.1;
  static constexpr std::int64_t kLeastExamples = 16;

  /// \param factor 0: no loss is too large \param state kept in checkpoints; must outlive this object
  Divergence(double factor, std::int64_t steps_per_epoch, DivergenceState& state)
      : factor_(factor), steps_per_epoch_(steps_per_epoch), state_(state) {}

  /// Whether offer_first_loss should be called: there is no first loss yet.
  bool wants_first_loss() const { return factor_ > 0 && !state_.has_first_loss; }
  /// Takes the first loss from the sums of all steps since the (re)start at step `since`, if they have enough examples.
  /// \param last whether a report follows, so that no more steps are added to the sums: they then need not be enough
  void offer_first_loss(const kernels::LossSums& sums, std::int64_t since, bool last);
  /// Takes a reported loss. \param sums of the steps since the previous report \param step steps made
  void report(const kernels::LossSums& sums, std::int64_t step);
  bool is_too_large(const kernels::LossSums& sums) const;
  /// Whether the last reported loss was too large.
  bool is_above() const { return is_above_; }
  /// Whether all losses reported during an epoch were too large.
  bool has_diverged(std::int64_t step) const { return is_above_ && step - state_.below_until >= steps_per_epoch_; }
  double first_loss() const { return state_.first_loss; }

 private:
  double factor_;
  std::int64_t steps_per_epoch_;
  DivergenceState& state_;
  bool is_above_ = false;
};

}  // namespace unisono::session
