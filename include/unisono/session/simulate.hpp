#pragma once

#include <cstdint>
#include <optional>

#include "unisono/session/run.hpp"

namespace unisono::session {

/// What failures of simulated hosts cost, and what was done about them; in simulated seconds. A run folder has it as
/// failures.json.
struct FailureCost {
  std::int64_t failures = 0, checkpoints = 0;
  double for_checkpoints = 0;  ///< for which the ranks stood still
  double made_again = 0;       ///< of work since the last checkpoint, which was lost
  double restarts = 0;         ///< from failures until the ranks trained again
  double interval = 0;         ///< mean time from one checkpoint to the next
  double expected = 0;         ///< expected_failure_cost at this interval
  double sum() const { return for_checkpoints + made_again + restarts; }
};

/// The share of the time that failures cost on average: C/τ + (τ/2 + R)/M (Young 1974).
/// \param checkpoint seconds that one costs (C) \param interval seconds from one to the next (τ)
/// \param restart seconds (R) \param between_failures mean seconds (M)
double expected_failure_cost(double checkpoint, double interval, double restart, double between_failures);

/// A simulated rank's examples in a step. \param config with train.batch_size as settled
std::int64_t examples_of_step(const settings::Config& config);

/// What a simulation took.
struct SimulationCost {
  double simulated_seconds = 0, seconds = 0;
  std::int64_t computations = 0;  ///< gradients
  FailureCost failures = {};
};

/// Fills in what the config leaves to this machine: what an example takes, which is measured on its model and set.
/// \return nothing: a signal has come meanwhile \throws ConfigError where the config cannot be simulated
std::optional<settings::Config> settle_simulation(Job& job, settings::Config config);

/// Trains as `run` does, on the ranks and the network that `[simulation]` describes. Each gradient is computed, at the
/// parameters that the rank would have had; how long everything takes is simulated. The result depends on nothing of
/// this machine. Where hosts fail, the run starts again from its newest checkpoint. \throws TrainingError where ten
/// failures in a row come before a new one. \param job of one rank \param config from settle_simulation \param threads
/// of this machine that compute gradients
RunResult simulate(Job& job, const settings::Config& config, const RunOptions& options, int threads,
                   SimulationCost* cost = nullptr);

}  // namespace unisono::session
