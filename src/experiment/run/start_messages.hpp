#pragma once

#include "machine/parts.hpp"
#include "unisono/base/log.hpp"

namespace unisono::experiment {

/// What `say_start` describes.
struct StartOfRun {
  const Config& config;
  const ModelParts& parts;
  const TrainingParts& training;
  const data::DatasetInfo& data;
  const data::BatchSource& source;
  std::string threads_text;  ///< how their number was chosen; empty: it was not
};
/// Logs what a run is about to do, before its first step.
void say_start(const StartOfRun& run, Log& log);

}  // namespace unisono::experiment
