#include "unisono/session/evaluator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "unisono/comm/redistribute.hpp"

namespace unisono::session {
namespace {

/// Into how many portions a split is divided; each is evaluated by one replica. Where sums are to be reproducible, this
/// does not depend on the number of replicas, so that batches and sums are the same ones everywhere.
int portions_of(const settings::Config& config, int replicas) {
  constexpr int kPortionsOfLeaf = 4;
  const int leaves = config.communication.tree_leaves();
  return leaves > 0 ? kPortionsOfLeaf * leaves : replicas;
}

}  // namespace

std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           const settings::Config& config) {
  kernels::LossSums sums;
  comm::Communicator& replicas = parts.grid.data();
  const int portions = portions_of(config, replicas.size());
  const comm::Slice own = comm::slice_of(portions, replicas.rank(), replicas.size());
  for (Index portion = own.first; portion < own.last; ++portion) {
    const auto source =
        data.evaluate(split, static_cast<int>(portion), portions, config.train.evaluation_batch_size, parts.delivery());
    parts.replica->evaluate(*source, parts.state(), sums);
    if (config.communication.tree_leaves() > 0) sums.settle();
  }
  return parts.model->metrics(sum_over_ranks(parts.grid.all(), sums));
}

std::int64_t examples_of(const data::DatasetInfo& info, data::Split split) {
  if (split == data::Split::train) return info.train;
  return split == data::Split::validation ? info.validation : info.test;
}

data::Split watched_split(const data::DatasetInfo& info) {
  return info.validation > 0 ? data::Split::validation : data::Split::test;
}

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
