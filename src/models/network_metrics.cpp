#include <cmath>

#include "metrics.hpp"
#include "network_model.hpp"

namespace unisono::models {
namespace {

constexpr Index kTopCount = 5;

// Without labels a hit is an example all of whose outputs are right: as rare as not for many outputs, so that it has a
// name of its own, and no run is judged by it.
void add_classification(const kernels::LossSums& sums, Index classes, std::vector<Metric>& metrics) {
  metrics.push_back(
      {classes > 0 ? "accuracy" : "subset_accuracy", ratio(static_cast<double>(sums.correct), sums.examples), true});
  if (classes <= kTopCount) return;
  metrics.push_back({"top5_accuracy", ratio(static_cast<double>(sums.correct_top5), sums.examples), true});
}

void add_regression(const kernels::LossSums& sums, std::vector<Metric>& metrics) {
  metrics.push_back({"rmse", std::sqrt(ratio(sums.squared_error, sums.values)), false});
  metrics.push_back({"mae", ratio(sums.absolute_error, sums.values), false});
  add_r2(sums, metrics);
}

}  // namespace

std::vector<Metric> NetworkModel::metrics(const kernels::LossSums& sums) const {
  std::vector<Metric> metrics = {{"loss", ratio(sums.loss, sums.examples), false}};
  if (loss_->counts_hits()) add_classification(sums, loss_->classes(), metrics);
  if (sums.values > 0) add_regression(sums, metrics);
  return metrics;
}

}  // namespace unisono::models
