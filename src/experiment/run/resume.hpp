#pragma once

#include <cstdint>

#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"
#include "run/selection.hpp"
#include "unisono/base/log.hpp"

// What a run that is resumed must have in common with what it was, and what it takes over from its checkpoint.

namespace unisono::experiment {

/// A run that is to be resumed, as it stands here.
struct ResumedRun {
  const Config& config;
  ModelParts& parts;
  TrainingParts& training;
  const Criteria& criteria;
  CheckpointHeader& header;  ///< that it would begin with if it were new
  std::int64_t steps_per_epoch = 1;
};

/// Sets the run's vectors, and its header's progress, to those of a checkpoint. Says where it goes on, and what stands
/// between it and the same bits. Collective. \throws ConfigError, CheckpointError where it would not be the run that
/// was started, on rank 0
void resume_from(const StoredCheckpoint& checkpoint, const ResumedRun& run, Log& log);

}  // namespace unisono::experiment
