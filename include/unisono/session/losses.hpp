#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::session {

/// The sums over the group's ranks. Collective; one message.
kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums);

/// The ranks' counters added up; −1 where none of them counted. Collective; one message.
strategies::StrategyCounters sum_over_ranks(comm::Communicator& group, const strategies::StrategyCounters& counters);

/// Likewise; what is the same on all ranks is not added up.
strategies::BatchCounters sum_over_ranks(comm::Communicator& group, const strategies::BatchCounters& counters);

/// Likewise; what is the same on all ranks is not added up.
strategies::GossipCounters sum_over_ranks(comm::Communicator& group, const strategies::GossipCounters& counters);

strategies::SharingCounters sum_over_ranks(comm::Communicator& group, const strategies::SharingCounters& counters);

/// √(Σ_r ‖θ_r − θ‖² / P) / ‖θ‖ when the consensus θ was last formed, from the sums over all ranks.
double consensus_distance(const strategies::GossipCounters& sums);

/// Means of each kind of seconds over the ranks of the group that train. Collective; one message. \param trains whether
/// this rank trains
parallel::Seconds mean_over_ranks(comm::Communicator& group, const parallel::Seconds& seconds, bool trains = true);
/// after − before, member by member
parallel::Seconds difference(const parallel::Seconds& after, const parallel::Seconds& before);

/// The metric by which models are compared: the accuracy if there is one, otherwise the loss.
const models::Metric& decisive(const std::vector<models::Metric>& metrics);
/// Whether `value` beats `best`, in the metric's own sense. NaN never does.
bool is_better(const models::Metric& metric, double best);

}  // namespace unisono::session
