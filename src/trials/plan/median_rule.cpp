#include "unisono/trials/median_rule.hpp"

#include <algorithm>

namespace unisono::trials {

MedianRule::Curve& MedianRule::curve_of(const records::TrialRun& training) {
  for (Curve& curve : curves_) {
    if (curve.training == training) return curve;
  }
  return curves_.emplace_back(Curve{.training = training, .losses = {}});
}

std::vector<double> MedianRule::means_of_others(const Curve& own, std::int64_t epochs) const {
  std::vector<double> means;
  for (const Curve& other : curves_) {
    if (&other == &own || other.training.trial == own.training.trial || !other.losses.contains(epochs)) continue;
    double sum = 0, count = 0;
    for (auto at = other.losses.begin(); at != other.losses.upper_bound(epochs); ++at, ++count) sum += at->second;
    means.push_back(sum / count);
  }
  return means;
}

bool MedianRule::goes_on(const records::TrialRun& training, std::int64_t epochs, double loss) {
  Curve& own = curve_of(training);
  own.losses[epochs] = loss;
  std::vector<double> means = means_of_others(own, epochs);
  if (std::ssize(means) < kLeastOthers) return true;
  const auto middle = means.begin() + std::ssize(means) / 2;
  std::nth_element(means.begin(), middle, means.end());
  const auto by_loss = [](const auto& a, const auto& b) { return a.second < b.second; };
  return std::min_element(own.losses.begin(), own.losses.end(), by_loss)->second <= *middle;
}

}  // namespace unisono::trials
