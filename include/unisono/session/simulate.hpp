#pragma once

#include <cstdint>
#include <optional>

#include "unisono/session/run.hpp"

namespace unisono::session {

/// What a simulation took.
struct SimulationCost {
  double simulated_seconds = 0, seconds = 0;
  std::int64_t computations = 0;  ///< gradients
};

/// Fills in what the config leaves to this machine: what an example takes, which is measured on its model and set.
/// \return nothing: a signal has come meanwhile \throws ConfigError where the config cannot be simulated
std::optional<settings::Config> settle_simulation(Job& job, settings::Config config);

/// Trains as `run` does, on the ranks and the network that `[simulation]` describes. Each gradient is computed, at the
/// parameters that the rank would have had; how long everything takes is simulated. The result depends on nothing of
/// this machine. \param job of one rank \param config from settle_simulation \param threads of this machine that
/// compute gradients
RunResult simulate(Job& job, const settings::Config& config, const RunOptions& options, int threads,
                   SimulationCost* cost = nullptr);

}  // namespace unisono::session
