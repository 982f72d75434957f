#include "divergence.hpp"

#include <algorithm>
#include <cmath>

namespace unisono {

void Divergence::offer_first_loss(const LossSums& sums, std::int64_t since, bool last) {
  const bool enough = sums.examples >= kLeastExamples || (last && sums.examples > 0);
  if (!wants_first_loss() || !enough || !std::isfinite(sums.loss)) return;
  state_ = {.has_first_loss = true, .first_loss = sums.loss / static_cast<double>(sums.examples), .below_until = since};
}

void Divergence::report(double loss, std::int64_t step) {
  is_above_ = factor_ > 0 && state_.has_first_loss && !(loss <= largest_loss());
  if (!is_above_) state_.below_until = step;
}

double Divergence::largest_loss() const { return factor_ * std::max(state_.first_loss, kLeastFirstLoss); }

}  // namespace unisono
