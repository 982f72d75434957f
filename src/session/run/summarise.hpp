#pragma once

#include "run/summary.hpp"
#include "run/training_observer.hpp"
#include "unisono/session/model_parts.hpp"
#include "unisono/session/run.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {

/// A run that has made its last step.
struct EndedRun {
  const RunPlan& plan;
  ModelParts& parts;
  TrainingParts& training;
  const CheckpointHeader& header;  ///< with which it began
  const TrainingObserver& observer;
  std::int64_t steps_per_epoch = 1;
  double seconds = 0;  ///< since it began, on this rank
};

/// Makes the run's summary. Collective; the same on every rank.
Summary summarise(const EndedRun& run);

/// The result that `run` returns. \param name of the run, for messages
RunResult result_of(const Summary& summary, const TrainingObserver& observer, const std::string& name);

}  // namespace unisono::session
