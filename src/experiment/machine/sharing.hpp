#pragma once

#include <optional>

#include "machine/parts.hpp"
#include "unisono/strategies/state_shards.hpp"

namespace unisono::experiment {

// What replicas share instead of each keeping all of it.

/// Which part of the optimizer's state each replica keeps; empty: all of it.
/// \param parts up to the replica
std::optional<strategies::StateShards> make_state_shards(const ModelParts& parts, const Config& config);

/// Where θ lies when it is made. \param parts up to the shards
Allocator& memory_of_parameters(ModelParts& parts);

}  // namespace unisono::experiment
