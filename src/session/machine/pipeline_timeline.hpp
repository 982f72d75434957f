#pragma once

#include <string>

#include "unisono/base/log.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::session {

/// A drawing (SVG) of how a step of a pipeline goes, as `unisono info --timeline` predicts it.
/// \param config of several stages \param ranks of the run
/// \throws ConfigError where the model cannot be cut as the config says
std::string predicted_timeline(const settings::Config& config, const data::DatasetInfo& data, int ranks, Log& log);

}  // namespace unisono::session
