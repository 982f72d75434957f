#include <algorithm>
#include <cmath>
#include <limits>

#include "linear/linear_model.hpp"
#include "metrics.hpp"

namespace unisono::models {
double area_under_roc(std::vector<float>& negative, std::vector<float>& positive) {
  const auto has_nan = [](const std::vector<float>& scores) {
    return std::any_of(scores.begin(), scores.end(), [](float score) { return std::isnan(score); });
  };
  if (negative.empty() || positive.empty() || has_nan(negative) || has_nan(positive)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::sort(negative.begin(), negative.end());
  std::sort(positive.begin(), positive.end());
  double halves = 0;  // two for each negative example below a positive one, one for each beside it
  auto below = negative.begin(), beside = negative.begin();
  for (const float score : positive) {
    below = std::find_if(below, negative.end(), [&](float other) { return other >= score; });
    beside = std::find_if(std::max(below, beside), negative.end(), [&](float other) { return other > score; });
    halves += static_cast<double>(below - negative.begin()) + static_cast<double>(beside - negative.begin());
  }
  return halves / 2 / static_cast<double>(negative.size()) / static_cast<double>(positive.size());
}

std::vector<Metric> LinearModel::metrics(const kernels::LossSums& sums) const {
  std::vector<Metric> metrics = {{"loss", ratio(sums.loss, sums.examples), false}};
  if (loss_ == Kind::squared) {
    metrics.push_back({"rmse", std::sqrt(ratio(sums.squared_error, sums.values)), false});
    metrics.push_back({"mae", ratio(sums.absolute_error, sums.values), false});
    add_r2(sums, metrics);
    return metrics;
  }
  metrics.push_back({"accuracy", ratio(static_cast<double>(sums.correct), sums.examples), true});
  if (!sums.negative_scores.empty() && !sums.positive_scores.empty()) {
    auto negative = sums.negative_scores, positive = sums.positive_scores;
    metrics.push_back({"auc", area_under_roc(negative, positive), true});
  }
  return metrics;
}

}  // namespace unisono::models
