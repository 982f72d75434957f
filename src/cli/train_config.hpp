#pragma once

#include <string>

#include "commands.hpp"

namespace unisono::cli {

/// The config that `train` is given: a file, or with --resume a run's folder, whose own config it then is.
/// \param resume whether the run is resumed
/// \throws ConfigError
experiment::Config read_train_config(const ConfigArguments& arguments, const std::string& output, bool resume,
                                     const models::ModelKinds& models);

}  // namespace unisono::cli
