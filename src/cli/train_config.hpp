#pragma once

#include <string>

#include "commands.hpp"

namespace unisono::cli {

/// The config for `unisono train`: read from a file or, with --resume and a run's folder, the run's own.
/// \param resume whether the run is resumed
/// \throws ConfigError
settings::Config read_train_config(const ConfigArguments& arguments, const std::string& output, bool resume,
                                   const models::ModelKinds& models);

}  // namespace unisono::cli
