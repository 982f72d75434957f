#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/experiment/bench.hpp"
#include "unisono/experiment/config.hpp"

namespace unisono::experiment {

struct InfoOptions {
  std::optional<SyntheticShape> data;  ///< in place of the config's set
  bool json = false;
};

/// Prints the table of layers, and what a rank's peak memory will be when the config is trained on these ranks. Nothing
/// is trained, and no data are read. Collective.
void info(comm::Communicator& world, const Config& config, const InfoOptions& options, Log& log);

}  // namespace unisono::experiment
