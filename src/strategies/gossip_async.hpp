#pragma once

#include <cstdint>

#include "gossip/pairs.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// The keys of strategy.kind = "gossip_async".
struct GossipAsyncSettings {
  PairTopology topology = PairTopology::complete;
  std::int64_t period = 1;  ///< own steps of an even rank from one exchange that it begins to the next
};

}  // namespace unisono::strategies
