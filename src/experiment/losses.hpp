#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono {

/// Σ over all ranks. Collective; one message.
LossSums sum_over_ranks(Communicator& world, const LossSums& sums);

/// Σ over all ranks of what they counted; −1 where none did. Collective; one message.
Doings sum_over_ranks(Communicator& world, const Doings& doings);

/// The parts' means over those ranks that train. Collective; one message. \param trains whether this one does
Seconds mean_over_ranks(Communicator& world, const Seconds& seconds, bool trains = true);
/// after − before, part by part
Seconds difference(const Seconds& after, const Seconds& before);

/// The figure that says which of two models is the better one: the accuracy where there is one, else the loss.
const Metric& decisive(const std::vector<Metric>& metrics);
/// Whether `value` beats `best`, in the metric's own sense. NaN never does.
bool is_better(const Metric& metric, double best);

}  // namespace unisono
