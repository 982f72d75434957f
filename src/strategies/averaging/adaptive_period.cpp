// AdaComm: averages become more frequent as the loss falls.
//     τ ← min(τ₀, ⌈τ₀ √(F / F₀)⌉)       F: mean training loss of the steps since the last average, over all ranks;
//                                       F₀: that of the first period, in which τ = τ₀
//   At first long periods save messages while gradients are large; later the ranks' disagreement would keep the loss
//   up, so they meet more often. The published rule measures F after a fixed time; here it is measured at every
//   average, so that the periods depend on the losses alone. A loss above F₀ does not lengthen the period. Wang &
//   Joshi, "Adaptive communication strategies to achieve the best error-runtime trade-off in local-update SGD", MLSys
//   2019 (equation 13).
// Cost per average: one allreduce of 16 bytes.
#include "averaging/adaptive_period.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "unisono/parallel/phase.hpp"

namespace unisono::strategies {

std::vector<double> AdaptivePeriod::State::scalars() const {
  if (period == 0) return {};
  return {first_loss, static_cast<double>(period)};
}

void AdaptivePeriod::State::restore(const std::vector<double>& scalars) {
  if (scalars.size() != 2) return;  // of a run that had not averaged yet
  first_loss = scalars[0];
  period = static_cast<std::int64_t>(scalars[1]);
}

AdaptivePeriod::AdaptivePeriod(TrainContext& run, std::int64_t first, State& state)
    : run_(run), first_(first), state_(state) {
  if (state_.period == 0) state_.period = first_;
}

/// The losses so far are set aside: a difference of two sums would depend on when they were last reported.
void AdaptivePeriod::begin(std::int64_t made) {
  begun_ = made;
  run_.backend.collect(run_.sums);
  before_ = std::exchange(run_.sums, {});
}

void AdaptivePeriod::choose() {
  const double loss = loss_of_period();
  if (state_.first_loss < 0) state_.first_loss = loss;
  const double ratio = loss / state_.first_loss;
  if (!(ratio >= 0)) return;  // there is no period for a loss that is not a number; the run will say so
  const double period = std::ceil(static_cast<double>(first_) * std::sqrt(std::min(1.0, ratio)));
  state_.period = std::max<std::int64_t>(1, static_cast<std::int64_t>(period));
}

double AdaptivePeriod::loss_of_period() {
  const parallel::Phase phase(run_, run_.seconds.exposed_communication);
  run_.backend.collect(run_.sums);
  kernels::LossSums of_period = std::exchange(run_.sums, std::move(before_));
  run_.sums += of_period;
  std::array<double, 2> sums = {of_period.loss, static_cast<double>(of_period.examples)};
  run_.replica.sum(sums);
  run_.communicator.allreduce_sum(sums);
  return sums[0] / sums[1];
}

}  // namespace unisono::strategies
