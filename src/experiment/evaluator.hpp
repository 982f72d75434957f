#pragma once

#include <vector>

#include "parts.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"

namespace unisono {

/// Evaluates a model on a split: every rank its part of the examples, each example exactly once. Collective.
/// \param batch_size examples that a rank evaluates at once
/// \return loss first, then what the model's kind has; the same on every rank
std::vector<Metric> evaluate_split(ModelParts& parts, Dataset& data, Split split, Index batch_size);

/// How many examples a split has.
std::int64_t examples_of(const DatasetInfo& info, Split split);

/// What a run evaluates while it trains: the validation set, or the test set where there is none.
Split watched_split(const DatasetInfo& info);

}  // namespace unisono
