#pragma once

#include <string>

#include "unisono/session/model_parts.hpp"
#include "unisono/session/stored_checkpoint.hpp"
#include "unisono/session/training_parts.hpp"
#include "unisono/session/weight_average.hpp"

namespace unisono::session {

/// θ, or the part of θ that this rank holds, as a vector of checkpoints.
StoredVector parameters_of(ModelParts& parts);

/// The running statistics, or the part of them that this rank holds, as a vector of checkpoints.
StoredVector statistics_of(ModelParts& parts);

/// The prefix of the groups in a checkpoint from which a model is applied: "", or the prefix of averaged weights.
inline std::string applied_folder(const CheckpointHeader& header) { return header.averaged ? kAverageGroup : ""; }

/// All vectors of a run's checkpoints with this rank's parts of them: θ, running statistics, moving averages, the
/// optimizer's and the strategy's state.
StoredVectors state_of(ModelParts& parts, TrainingParts& training);

/// Checks that a checkpoint has the run's vectors. Called on rank 0. \throws CheckpointError naming the block or the
/// optimizer that differs
void require_same_vectors(const ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored);

/// Whether every replica can restore its own optimizer state: the run has as many of them as before, and all ranks see
/// the file.
bool keeps_states_apart(const ModelParts& parts, const StoredCheckpoint& stored);

/// Restores this rank's vectors from a checkpoint. Collective. If the ranks had different optimizer states and cannot
/// get back their own, every rank gets the mean.
void restore_state(ModelParts& parts, TrainingParts& training, const StoredCheckpoint& stored);
/// Restores only θ and the running statistics (or their moving averages, if the run has them), to apply the model.
/// Collective.
void restore_model(ModelParts& parts, const StoredCheckpoint& stored);

}  // namespace unisono::session
