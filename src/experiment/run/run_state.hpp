#pragma once

#include <string>

#include "checkpoint/held_vector.hpp"
#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"
#include "run/weight_average.hpp"

namespace unisono::experiment {

/// θ, as far as this rank holds it.
HeldVector parameters_of(ModelParts& parts);

/// The running statistics.
HeldVector statistics_of(ModelParts& parts);

/// Where in a checkpoint the model lies that it is applied with: "", or the folder of averaged weights.
inline std::string applied_folder(const CheckpointHeader& header) { return header.averaged ? kAverageGroup : ""; }

/// What a run's checkpoints hold, and what of it this rank has: θ, the running statistics, and the optimizer's state.
HeldState state_of(ModelParts& parts, TrainingParts& training);

/// On rank 0. \throws CheckpointError naming the block or the optimizer that another run has
void require_same_vectors(const ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored);

/// Whether every rank gets back the optimizer state that it kept for itself: there are as many ranks as there were, and
/// all see the file.
bool keeps_states_apart(const ModelParts& parts, const StoredCheckpoint& stored);

/// Sets this rank's vectors from a checkpoint. Collective. Where ranks kept optimizer states of their own and do not
/// get them back, every rank gets their mean.
void restore_state(ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored);
/// θ and the running statistics alone, averaged where the run averages them, for evaluation. Collective.
void restore_model(ModelParts& parts, const StoredCheckpoint& stored);

}  // namespace unisono::experiment
