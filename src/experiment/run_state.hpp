#pragma once

#include "held_rows.hpp"
#include "parts.hpp"
#include "stored_checkpoint.hpp"

namespace unisono {

/// What a run's checkpoints hold, and what of it this rank has: θ, the running statistics, and the optimizer's state.
HeldState state_of(ModelParts& parts, TrainingParts& training);

/// On rank 0. \throws CheckpointError naming the block or the optimizer that another run has
void require_same_vectors(const ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored);

/// Sets this rank's vectors from a checkpoint. Collective. Where ranks kept optimizer states of their own and there
/// were others of them, or not all see the file, every rank gets the states' mean.
void restore_state(ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored);
/// θ and the running statistics alone, for evaluation. Collective.
void restore_model(ModelParts& parts, const StoredCheckpoint& stored);

}  // namespace unisono
