#pragma once

#include <string>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::jobs {

struct StudyOptions {
  std::string output;      ///< the study's folder; empty: studies/<name>
  bool resume = false;     ///< go on with the study in the folder
  bool overwrite = false;  ///< replace it
  models::ModelKinds models = {};
};

/// Trains the serial run of a config and each variant of its [study] with the same seeds, one training after the other,
/// each on the first ranks of the group while the others sleep; compares them; and writes study.json and study.md.
/// Collective.
/// \return whether it is complete; false: a signal stopped it, and it can be resumed
/// \throws ConfigError naming a variant that cannot be trained; OutputError, DataError, CheckpointError
bool study(comm::Communicator& world, const ConfigText& config, const StudyOptions& options, Log& log);

}  // namespace unisono::jobs
