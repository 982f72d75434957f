#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::experiment {

/// Σ over the group's ranks. Collective; one message.
kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums);

/// Σ over the group's ranks of what they counted; −1 where none did. Collective; one message.
strategies::StrategyCounters sum_over_ranks(comm::Communicator& group, const strategies::StrategyCounters& counters);

/// The parts' means over those ranks of the group that train. Collective; one message. \param trains whether this one
/// does
strategies::Seconds mean_over_ranks(comm::Communicator& group, const strategies::Seconds& seconds, bool trains = true);
/// after − before, part by part
strategies::Seconds difference(const strategies::Seconds& after, const strategies::Seconds& before);

/// The figure that says which of two models is the better one: the accuracy where there is one, else the loss.
const models::Metric& decisive(const std::vector<models::Metric>& metrics);
/// Whether `value` beats `best`, in the metric's own sense. NaN never does.
bool is_better(const models::Metric& metric, double best);

}  // namespace unisono::experiment
