#include "unisono/session/losses.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "unisono/comm/redistribute.hpp"

namespace unisono::session {

kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums) {
  const std::size_t scores = sums.negative_scores.size() + sums.positive_scores.size();
  // Counts below 2⁵³ are exact in a double.
  std::array<double, 10> all = {sums.loss,
                                static_cast<double>(sums.examples),
                                static_cast<double>(sums.correct),
                                static_cast<double>(sums.correct_top5),
                                sums.squared_error,
                                sums.absolute_error,
                                sums.target_sum,
                                sums.target_squared_sum,
                                static_cast<double>(sums.values),
                                static_cast<double>(scores)};
  group.allreduce_sum(std::span<double>(all));
  kernels::LossSums total{.loss = all[0],
                          .examples = static_cast<std::int64_t>(all[1]),
                          .correct = static_cast<std::int64_t>(all[2]),
                          .correct_top5 = static_cast<std::int64_t>(all[3]),
                          .squared_error = all[4],
                          .absolute_error = all[5],
                          .target_sum = all[6],
                          .target_squared_sum = all[7],
                          .values = static_cast<std::int64_t>(all[8])};
  total.settled = sums.settled;
  total.settled.resize(static_cast<std::size_t>(group.max(static_cast<std::int64_t>(sums.settled.size()))));
  comm::CommunicatorSquares(group).sum(total.settled);
  total.unsettle();
  if (all[9] == 0) return total;
  total.negative_scores = group.all_gather_joined(sums.negative_scores);
  total.positive_scores = group.all_gather_joined(sums.positive_scores);
  return total;
}

const models::Metric& decisive(const std::vector<models::Metric>& metrics) {
  const auto accuracy = std::find_if(metrics.begin(), metrics.end(),
                                     [](const models::Metric& metric) { return metric.name == "accuracy"; });
  return accuracy == metrics.end() ? metrics.front() : *accuracy;
}

bool is_better(const models::Metric& metric, double best) {
  return metric.larger_is_better ? metric.value > best : metric.value < best;
}

}  // namespace unisono::session
