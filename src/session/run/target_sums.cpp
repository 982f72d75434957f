#include "run/target_sums.hpp"

#include <cmath>
#include <limits>
#include <span>

#include "unisono/models/r2.hpp"

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
  double sum = 0, varying = 0;
  for (std::size_t i = 0; i < all.size(); i += 3) {
    kernels::LossSums one;
    one.target_sum = all[i];
    one.target_squared_sum = all[i + 1];
    one.squared_error = all[i + 2];
    one.values = static_cast<std::int64_t>(examples_);
    const double r2 = models::r2_of(one);
    if (std::isnan(r2)) continue;
    sum += r2;
    ++varying;
  }
  return varying > 0 ? sum / varying : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace unisono::session
