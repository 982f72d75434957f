#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "step.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/strategies/strategy.hpp"

// The consensus of strategies without a centre: each rank trains its own θ_r and running statistics, which it keeps in
// TrainContext::vectors; their uniform mean over the ranks, in TrainContext::state, is the model that others see.

namespace unisono::strategies {

/// Places in TrainContext::vectors: this rank's θ_r, and its running statistics.
inline constexpr std::size_t kReplica = 0, kReplicaStatistics = 1;

/// A context with this rank's own θ and statistics in place of the consensus; at the beginning of a run, they are the
/// initial ones.
TrainContext own_context(TrainContext& run);

/// What was averaged for the consensus, and how far the ranks were from it when it was last formed.
struct ConsensusCounters {
  AveragedCounters averaged = {};
  double difference_squares = 0, mean_squares = 0;  ///< ‖θ_r − mean‖² and ‖mean‖² of what this rank holds

  /// Declares the bytes, the squares, which the ranks add up, and the distance in metrics.
  void describe(CounterVisitor& visitor);
  /// Declares the distance in the group of the summary in which it is called.
  void describe_in_summary(CounterVisitor& visitor) const;
  /// √(Σ_r ‖θ_r − θ‖² / P) / ‖θ‖, from the sums over all ranks; 0 where θ is 0.
  double distance() const;
};

/// run.state ← (1/P) Σ_r own_r, where θ is trained. Collective.
/// \param statistics_weight of this rank's running statistics in their mean
void form_consensus(TrainContext& run, models::ModelState own, ConsensusCounters& counters,
                    double statistics_weight = 1);

/// The summary's lines of ranks that exchange parameters with neighbours. \param exchanges what they were like
std::string gossip_text(const CounterTerms& terms, std::int64_t sent_bytes, const ConsensusCounters& consensus,
                        const std::string& exchanges);

/// Strategy::need_of_examples where ranks have running statistics of their own.
std::string need_of_examples_for_statistics(const models::Model& model);

}  // namespace unisono::strategies
