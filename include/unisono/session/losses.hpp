#pragma once

#include "unisono/comm/communicator.hpp"
#include "unisono/models/model.hpp"

namespace unisono::session {

/// The sums over the group's ranks. Collective; one message.
kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums);

/// The metric by which models are compared: the accuracy if there is one, otherwise the loss.
const models::Metric& decisive(const std::vector<models::Metric>& metrics);
/// Whether `value` beats `best`, in the metric's own sense. NaN never does.
bool is_better(const models::Metric& metric, double best);

}  // namespace unisono::session
