#pragma once

#include "machine/parts.hpp"
#include "run/summary.hpp"
#include "run/training_observer.hpp"
#include "unisono/experiment/run.hpp"

namespace unisono::experiment {

/// A run that has made its last step.
struct EndedRun {
  ModelParts& parts;
  TrainingParts& training;
  const CheckpointHeader& header;  ///< that it began with
  const TrainingObserver& observer;
  std::int64_t steps_per_epoch = 1;
  double seconds = 0;  ///< since it began, on this rank
};

/// Collective; the same on every rank.
Summary summarise(const EndedRun& run);

/// What `run` returns of it. \param name of the run, in messages
RunResult result_of(const Summary& summary, const TrainingObserver& observer, const std::string& name);

}  // namespace unisono::experiment
