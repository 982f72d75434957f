#pragma once

#include "unisono/data/dataset.hpp"
#include "unisono/models/model.hpp"
#include "unisono/strategies/settings.hpp"

namespace unisono::strategies {

/// The portions into which strategy "batch" cuts the training set, as the settings say or, by default, a function of
/// model and set: at most 64 where that is no more than a tenth of a pass's time for adding up their gradients, but at
/// least 8, and never more than there are examples.
int portions_of(const StrategySettings& settings, const models::Model& model, const data::DatasetInfo& data);

}  // namespace unisono::strategies
