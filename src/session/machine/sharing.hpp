#pragma once

#include <optional>

#include "unisono/parallel/state_shards.hpp"
#include "unisono/session/model_parts.hpp"

namespace unisono::session {

// What replicas share instead of each keeping all of it.

/// On what it depends whether replicas shard the optimizer's state.
struct ShardTerms {
  const settings::Config& config;
  const strategies::Strategy& strategy;
  const models::Model& model;
  kernels::Backend& backend;
  int replicas;
  bool shares_memory;  ///< all replicas do; see Communicator::shares_memory
};
/// Whether each replica keeps a part of it, and makes that part of a step.
bool shards_state(const ShardTerms& terms);

/// Which part of the optimizer's state each replica keeps; empty: all of it.
/// \param parts up to the replica
std::optional<parallel::StateShards> make_state_shards(const ModelParts& parts, const settings::Config& config);

/// Where θ lies when it is made. \param parts up to the shards
Allocator& memory_of_parameters(ModelParts& parts);

}  // namespace unisono::session
