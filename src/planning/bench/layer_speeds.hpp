#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "bench/roofline.hpp"
#include "bench/trial.hpp"

namespace unisono::planning {

/// A pass of a layer, or the optimizer's update: its time in a step, and the least that it can be.
struct LayerSpeed {
  Floor floor;
  double seconds = 0;
};

/// The layers of one rank's steps on a CPU.
struct LayerSpeeds {
  Roofline roofline;
  std::vector<LayerSpeed> passes;  ///< in the order in which they run; what is computed anew is in the backward pass
  double step_seconds = 0;         ///< mean of the steps whose layers were timed

  double floor_seconds() const;  ///< of all passes together
};

/// Checks that layers can be timed. \throws ConfigError, LaunchError
void require_layers(const settings::Config& config, BenchTrial& trial, int ranks);

/// Makes steps whose layers are timed. \pre require_layers \param flops_per_second the measured peak
LayerSpeeds time_layers(BenchTrial& trial, const settings::Config& config, std::int64_t steps, double flops_per_second);

nlohmann::ordered_json to_json(const LayerSpeeds& speeds);
/// A table, a line for each pass, without the line break at the end.
std::string table_of(const LayerSpeeds& speeds);

}  // namespace unisono::planning
