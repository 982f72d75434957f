#pragma once

#include <vector>

#include "unisono/comm/communicator.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::session {

/// Evaluates a model on a split; the ranks divide the examples, and each is counted once. Collective.
/// \param config says how many examples a batch has, and whether sums are to be reproducible
/// \return loss first, then the metrics of the model's kind; the same on every rank
std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split,
                                           const settings::Config& config);

/// How many examples a split has.
std::int64_t examples_of(const data::DatasetInfo& info, data::Split split);

/// The split that a run evaluates during training: validation, or test if there is no validation set.
data::Split watched_split(const data::DatasetInfo& info);

/// The sums over the group's ranks. Collective; one message.
kernels::LossSums sum_over_ranks(comm::Communicator& group, const kernels::LossSums& sums);

/// The metric by which models are compared: the accuracy if there is one, otherwise the loss.
const models::Metric& decisive(const std::vector<models::Metric>& metrics);
/// Whether `value` beats `best`, in the metric's own sense. NaN never does.
bool is_better(const models::Metric& metric, double best);

}  // namespace unisono::session
