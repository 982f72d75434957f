#pragma once

#include <cstdint>

#include "gossip/mixing.hpp"
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

}  // namespace unisono::strategies
