#pragma once

#include <string>

#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Advice of StrategyKind::relief for strategies that sum gradients.
std::string relief_of_allreduce(const StrategySettings& settings, bool in_place);

/// Trains with allreduce until `last_step` steps of the run are made; averaging begins with it (allreduce_epochs).
/// \return whether the observer wants to go on
bool train_with_allreduce(TrainContext& run, std::int64_t last_step,
                          const parallel::CompressionSettings& compression = {});

}  // namespace unisono::strategies
