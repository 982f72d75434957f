#pragma once

#include <optional>

#include "parts.hpp"
#include "unisono/experiment/checkpoint.hpp"

namespace unisono {

/// What names and orders a run's vectors in its checkpoints.
CheckpointLayout checkpoint_layout(const ModelParts& parts, const TrainingParts& training);

/// Copies this run's vectors into a checkpoint, on rank 0, without its header. Collective: ranks that keep optimizer
/// states of their own send them there.
/// \param checkpoint of rank 0; null elsewhere
void copy_state(ModelParts& parts, TrainingParts& training, Checkpoint* checkpoint);

/// Sets every rank's vectors from rank 0's checkpoint. Collective. Where ranks kept optimizer states of their own and
/// there were others of them, every rank gets the states' mean.
/// \param checkpoint of rank 0; its content is ignored elsewhere
/// \return its header, on every rank
CheckpointHeader restore_state(ModelParts& parts, TrainingParts& training, const std::optional<Checkpoint>& checkpoint);

}  // namespace unisono
