#pragma once

#include "unisono/base/log.hpp"
#include "unisono/session/run_plan.hpp"
#include "unisono/session/training_parts.hpp"

namespace unisono::session {

/// What `say_start` describes.
struct StartOfRun {
  const RunPlan& plan;
  const ModelParts& parts;
  const TrainingParts& training;
  const data::BatchSource& source;
  std::string threads_text;  ///< how their number was chosen; empty: it was not
};
/// Logs what a run is about to do, before its first step.
void say_start(const StartOfRun& run, Log& log);

}  // namespace unisono::session
