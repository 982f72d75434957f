#pragma once

#include "machine/parts.hpp"
#include "unisono/base/log.hpp"

namespace unisono::experiment {

/// What a run says of itself before its first step.
struct StartOfRun {
  const Config& config;
  const ModelParts& parts;
  const TrainingParts& training;
  const data::DatasetInfo& data;
  const data::BatchSource& source;
};
void say_start(const StartOfRun& run, Log& log);

}  // namespace unisono::experiment
