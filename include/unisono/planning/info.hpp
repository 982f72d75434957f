#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "unisono/base/log.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/planning/bench.hpp"
#include "unisono/settings/config.hpp"

namespace unisono::planning {

/// The arguments of `unisono info`.
struct InfoOptions {
  std::optional<SyntheticShape> data;  ///< used instead of the config's set
  bool json = false;
  std::optional<std::string> timeline = {};  ///< file for a drawing of a pipeline's step, as SVG
  bool overwrite = false;                    ///< replace an earlier drawing
};

/// Prints the table of layers, and predicts a rank's peak memory for training the config on these ranks; of a pipeline,
/// each stage's, and how a step goes. Reads no examples, and trains nothing; but where the config asks for GPUs, it
/// makes a few steps on random data there, and prints what the GPU was given. Collective.
void info(comm::Communicator& world, const settings::Config& config, const InfoOptions& options, Log& log);

}  // namespace unisono::planning
