#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gossip/async_averages.hpp"
#include "gossip/consensus.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The keys of strategy.kind = "gossip_async".
struct GossipAsyncSettings {
  PairTopology topology = PairTopology::complete;
  std::int64_t period = 1;  ///< own steps of a rank from one exchange that it begins to the next
};

/// What asynchronous gossip counts.
struct GossipAsyncCounters {
  std::int64_t sent_bytes = 0;  ///< to other ranks, but for the consensus
  std::int64_t exchanges = 0;   ///< that this rank began
  /// By step: the exchanges that changed θ_r between the reading of θ_r for its gradient and the step itself.
  Histogram staleness = {};
  std::vector<std::int64_t> rank_steps = {};  ///< as StepRecord::worker_steps, when the consensus was last formed
  ConsensusCounters consensus = {};

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

}  // namespace unisono::strategies
