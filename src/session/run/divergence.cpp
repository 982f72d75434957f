#include "run/divergence.hpp"

#include <algorithm>
#include <cmath>

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

}  // namespace unisono::session
