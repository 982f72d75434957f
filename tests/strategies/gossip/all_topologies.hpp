#pragma once

#include "gossip/mixing.hpp"

namespace unisono::strategies {

inline constexpr Topology kAllTopologies[] = {Topology::ring, Topology::grid, Topology::exponential,
                                              Topology::complete};

}  // namespace unisono::strategies
