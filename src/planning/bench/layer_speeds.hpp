#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "bench/roofline.hpp"
#include "bench/trial.hpp"

namespace unisono::planning {

/// The least times of the layers of a rank's step on a CPU.
struct LayerFloors {
  Roofline roofline;
  std::vector<Floor> passes;  ///< those that have something to do, in the order in which they run

  double seconds() const;  ///< of all passes together
};

/// Checks that the model is a network. \param option of the command that asks for its layers: "bench --layers"
/// \throws ConfigError
void require_network(const settings::Config& config, const models::Model& model, const std::string& option);

/// A step of training, to count its work.
struct StepTraits {
  Index batch = 0;       ///< examples of a micro-batch
  int states = 0;        ///< vectors of the optimizer that are as long as θ
  bool at_once = false;  ///< whether backward passes make steps of weights (nn::Pass::step)
};

/// Measures the levels of memory. \pre the model is a network \param flops_per_second the measured peak
LayerFloors layer_floors(const models::Model& model, kernels::Backend& backend, const StepTraits& step,
                         double flops_per_second);

/// The times of the layers of one rank's steps, beside the least times.
struct LayerSpeeds {
  LayerFloors floors;
  std::vector<double> seconds;  ///< of each pass in a step
  double step_seconds = 0;      ///< mean of the steps whose layers were timed
};

/// Checks that layers can be timed. \throws ConfigError, LaunchError
void require_layers(const settings::Config& config, BenchTrial& trial, int ranks);

/// Makes steps whose layers are timed. \pre require_layers \param flops_per_second the measured peak
LayerSpeeds time_layers(BenchTrial& trial, const settings::Config& config, std::int64_t steps, double flops_per_second);

nlohmann::ordered_json to_json(const LayerFloors& floors);
nlohmann::ordered_json to_json(const LayerSpeeds& speeds);
/// A table, a line for each pass, without the line break at the end.
std::string table_of(const LayerFloors& floors);
std::string table_of(const LayerSpeeds& speeds);

}  // namespace unisono::planning
