#pragma once

#include "gossip/consensus.hpp"

namespace unisono::strategies {

inline constexpr Topology kAllTopologies[] = {Topology::ring, Topology::grid, Topology::exponential,
                                              Topology::complete};

}  // namespace unisono::strategies
