#include "run/target_sums.hpp"

#include <limits>
#include <span>

namespace unisono::session {

void TargetSums::read(View rows, View answers, View) {
  for (std::size_t i = 0; i < answers.size(); ++i) {
    Sums& sums = one_[i % one_.size()];
    const auto target = static_cast<double>(answers[i]), error = static_cast<double>(rows[i]) - target;
    sums.target += target;
    sums.target_squared += target * target;
    sums.squared_error += error * error;
  }
  examples_ += static_cast<double>(answers.size() / one_.size());
}

double TargetSums::r2(comm::Communicator& group) {
  group.allreduce_sum(std::span(&examples_, 1));
  std::vector<double> all;
  for (const Sums& sums : one_) all.insert(all.end(), {sums.target, sums.target_squared, sums.squared_error});
  group.allreduce_sum(std::span(all));
  constexpr double kRounding = 0x1p-53;
  double sum = 0, varying = 0;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    const double spread = all[i + 1] - all[i] * all[i] / examples_;
    if (!(spread > examples_ * kRounding * all[i + 1])) continue;  // no more than the roundings of Σt²
    sum += 1 - all[i + 2] / spread;
    ++varying;
  }
  return varying > 0 ? sum / varying : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace unisono::session
