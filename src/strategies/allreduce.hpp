#pragma once

#include <memory>
#include <string>

#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

std::string relief_of_allreduce(const StrategySettings& settings, bool in_place);

/// Trains with allreduce until `last_step` steps are made. \return whether the observer wants to go on
bool train_with_allreduce(TrainContext& run, std::int64_t last_step);

}  // namespace unisono::strategies
