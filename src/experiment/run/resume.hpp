#pragma once

#include <cstdint>

#include "checkpoint/stored_checkpoint.hpp"
#include "machine/parts.hpp"
#include "unisono/base/log.hpp"

// What a run that is resumed must have in common with what it was, and what it takes over from its checkpoint.

namespace unisono::experiment {

/// A run that is to be resumed, as it stands here.
struct ResumedRun {
  const Config& config;
  const ModelParts& parts;
  const CheckpointHeader& header;  ///< that it would begin with if it were new
  std::int64_t steps_per_epoch = 1;
};

/// For rank 0. \throws ConfigError, CheckpointError where the run would not be the one that was started
void require_resumable(const ResumedRun& run, const CheckpointHeader& stored);

/// Says where the run goes on, and what stands between it and the same bits.
void say_differences(const ResumedRun& run, const CheckpointHeader& stored, Log& log);

/// Sets a header to where the stored run stood. What both say of the experiment stays this run's.
void take_progress(const CheckpointHeader& stored, CheckpointHeader& header);

}  // namespace unisono::experiment
