#pragma once

#include <cstddef>
#include <string>

#include "unisono/strategies/strategy.hpp"

// The consensus of strategies without a centre: each rank trains its own θ_r and running statistics, which it keeps in
// TrainContext::vectors; their uniform mean over the ranks, in TrainContext::state, is the model that others see.

namespace unisono::strategies {

/// Places in TrainContext::vectors: this rank's θ_r, and its running statistics.
inline constexpr std::size_t kReplica = 0, kReplicaStatistics = 1;

/// A context with this rank's own θ and statistics in place of the consensus; at the beginning of a run, they are the
/// initial ones.
TrainContext own_context(TrainContext& run);

/// run.state ← (1/P) Σ_r own_r, where θ is trained, and measures ‖θ_r − mean‖ for run.counters.gossip. Collective.
/// \param statistics_weight of this rank's running statistics in their mean
void form_consensus(TrainContext& run, models::ModelState own, double statistics_weight = 1);

/// Strategy::need_of_examples where ranks have running statistics of their own.
std::string need_of_examples_for_statistics(const models::Model& model);

}  // namespace unisono::strategies
