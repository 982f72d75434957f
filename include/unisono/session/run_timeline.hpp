#pragma once

#include <string>

#include "unisono/models/factory.hpp"

namespace unisono::session {

/// A drawing (SVG) of how a step of a run's pipeline goes, as `unisono info --timeline` predicts it for the shapes of
/// the set in the run's newest checkpoint: the set itself may be gone. Not collective.
/// \param run the run's folder \param config its effective config \param ranks of the run; 0: not known
/// \throws CheckpointError, ConfigError
std::string run_timeline(const std::string& run, const std::string& config, int ranks,
                         const models::ModelKinds& models);

}  // namespace unisono::session
