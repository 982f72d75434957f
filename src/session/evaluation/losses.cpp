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

strategies::StrategyCounters sum_over_ranks(comm::Communicator& group, const strategies::StrategyCounters& counters) {
  const std::array<std::int64_t, 7> own = {counters.averaged_bytes,         counters.passed_bytes,
                                           counters.touched_rows,           counters.boundary_bytes,
                                           counters.node_averaged_bytes,    counters.compression.sent_bytes,
                                           counters.compression.plain_bytes};
  std::array<std::int64_t, 2 * own.size() + 1> all{};
  for (std::size_t i = 0; i < own.size(); ++i) {
    all[2 * i] = std::max<std::int64_t>(0, own[i]);
    all[2 * i + 1] = own[i] >= 0 ? 1 : 0;  // number of ranks that count this
  }
  all.back() = counters.row_conflicts;
  group.allreduce_sum(std::span<std::int64_t>(all));
  const auto total = [&](std::size_t i) { return all[2 * i + 1] > 0 ? all[2 * i] : -1; };
  return {.averaged_bytes = total(0),
          .node_averaged_bytes = total(4),
          .passed_bytes = total(1),
          .boundary_bytes = total(3),
          .touched_rows = total(2),
          .row_conflicts = all.back(),
          .compression = {.sent_bytes = total(5), .plain_bytes = total(6)}};
}

strategies::BatchCounters sum_over_ranks(comm::Communicator& group, const strategies::BatchCounters& counters) {
  std::array<std::int64_t, 5> sums = {counters.portions, counters.cancelled, counters.moved, counters.repeated,
                                      counters.sent_bytes};
  group.allreduce_sum(std::span<std::int64_t>(sums));
  strategies::BatchCounters all = counters;
  all.portions = sums[0];
  all.cancelled = sums[1];
  all.moved = sums[2];
  all.repeated = sums[3];
  all.sent_bytes = sums[4];
  return all;
}

strategies::GossipCounters sum_over_ranks(comm::Communicator& group, const strategies::GossipCounters& counters) {
  std::array<double, 2> squares = {counters.difference_squares, counters.mean_squares};
  group.allreduce_sum(std::span<double>(squares));
  strategies::GossipCounters all = counters;
  all.sent_bytes = group.sum(counters.sent_bytes);
  if (all.exchanges >= 0) {
    all.exchanges = group.sum(counters.exchanges);
    all.staleness = {};
    for (const auto& counts : group.all_gather_vectors(counters.staleness.counts)) all.staleness += {counts};
  }
  all.difference_squares = squares[0];
  all.mean_squares = squares[1];
  return all;
}

strategies::SharingCounters sum_over_ranks(comm::Communicator& group, const strategies::SharingCounters& counters) {
  std::array<std::int64_t, 3> sums = {counters.sent_bytes, counters.plain_bytes, counters.updates};
  group.allreduce_sum(std::span<std::int64_t>(sums));
  std::vector<std::int64_t> counts = counters.staleness.counts;
  counts.resize(strategies::Histogram::kLargest + 1);
  group.allreduce_sum(std::span<std::int64_t>(counts));
  while (!counts.empty() && counts.back() == 0) counts.pop_back();
  return {.sent_bytes = sums[0], .plain_bytes = sums[1], .updates = sums[2], .staleness = {std::move(counts)}};
}

double consensus_distance(const strategies::GossipCounters& sums) {
  return sums.mean_squares > 0 ? std::sqrt(sums.difference_squares / sums.mean_squares) : 0;
}

parallel::Seconds mean_over_ranks(comm::Communicator& group, const parallel::Seconds& seconds, bool trains) {
  std::array<double, 10> parts = {seconds.compute,        seconds.exposed_communication,
                                  seconds.straggler_wait, seconds.bubble,
                                  seconds.input,          seconds.optimizer,
                                  seconds.evaluation,     seconds.checkpoint,
                                  seconds.other,          1};
  if (!trains) parts.fill(0);
  group.allreduce_sum(std::span<double>(parts));
  for (double& part : parts) part /= parts.back();
  return {.compute = parts[0],
          .exposed_communication = parts[1],
          .straggler_wait = parts[2],
          .bubble = parts[3],
          .input = parts[4],
          .optimizer = parts[5],
          .evaluation = parts[6],
          .checkpoint = parts[7],
          .other = parts[8]};
}

parallel::Seconds difference(const parallel::Seconds& after, const parallel::Seconds& before) {
  return {.compute = after.compute - before.compute,
          .exposed_communication = after.exposed_communication - before.exposed_communication,
          .straggler_wait = after.straggler_wait - before.straggler_wait,
          .bubble = after.bubble - before.bubble,
          .input = after.input - before.input,
          .optimizer = after.optimizer - before.optimizer,
          .evaluation = after.evaluation - before.evaluation,
          .checkpoint = after.checkpoint - before.checkpoint,
          .other = after.other - before.other};
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
