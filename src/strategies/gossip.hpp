#pragma once

#include <cstdint>

#include "gossip/consensus.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Whether a rank's step begins at the mixed θ, with a gradient at its own θ, or is mixed with the others' steps.
enum class GossipOrder { combine_then_adapt, adapt_then_combine };

/// What happens to the optimizer's vectors in an exchange.
enum class GossipMomentum { keep, mix };

/// The keys of strategy.kind = "gossip".
struct GossipSettings {
  Topology topology = Topology::exponential;
  GossipOrder order = GossipOrder::combine_then_adapt;
  GossipMomentum momentum = GossipMomentum::keep;
  std::int64_t period = 1;  ///< steps between exchanges
};

/// What gossip counts.
struct GossipCounters {
  std::int64_t sent_bytes = 0;       ///< to neighbours, but for the consensus
  double second_singular_value = 0;  ///< of the product of `rounds` mixing matrices
  std::int64_t rounds = 1;           ///< exchanges after which the mixing matrices recur
  ConsensusCounters consensus = {};

  void describe(CounterVisitor& visitor);
  std::string text(const CounterTerms& terms) const;
};

}  // namespace unisono::strategies
