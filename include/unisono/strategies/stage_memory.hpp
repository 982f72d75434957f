#pragma once

#include "unisono/kernels/backend.hpp"
#include "unisono/strategies/replica_settings.hpp"
#include "unisono/strategies/stages.hpp"

namespace unisono::strategies {

/// What a stage's rank needs for a step's micro-batches, in floats of the backend's memory.
struct StageMemory {
  int flights = 0;        ///< the most micro-batches at a time, those of each chunk counted
  Index activations = 0;  ///< of all flights, with their gradients and what the layers keep
  Index boundaries = 0;   ///< one message each from and to both neighbours, for each chunk

  Index floats() const { return activations + boundaries; }
};

/// \param batch examples of a micro-batch \param micro_batches of a step on this replica
/// \pre settings.schedule and settings.chunks are those of the stages
StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches);

/// What evaluations of batches of this size need instead.
StageMemory inference_memory_of(const Stages& stages, int stage, const kernels::Backend& backend, Index batch);

}  // namespace unisono::strategies
