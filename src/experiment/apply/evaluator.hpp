#pragma once

#include <vector>

#include "machine/parts.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

namespace unisono::experiment {

/// Evaluates a model on a split: every replica its part of the examples, each example exactly once. Collective.
/// \param batch_size examples that a replica evaluates at once
/// \return loss first, then what the model's kind has; the same on every rank
std::vector<models::Metric> evaluate_split(ModelParts& parts, data::Dataset& data, data::Split split, Index batch_size);

/// How many examples a split has.
std::int64_t examples_of(const data::DatasetInfo& info, data::Split split);

/// What a run evaluates while it trains: the validation set, or the test set where there is none.
data::Split watched_split(const data::DatasetInfo& info);

}  // namespace unisono::experiment
