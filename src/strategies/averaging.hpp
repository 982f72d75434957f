#pragma once

#include <memory>

#include "parameter_average.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// What happens to the ranks' optimizer states when θ is averaged.
enum class StateAtAverage { average, keep, reset };

/// The keys of strategy.kind = "averaging".
struct AveragingSettings {
  std::int64_t period = 16;  ///< steps between averages
  RowMergeSettings merge{};
  StateAtAverage optimizer_state = StateAtAverage::average;
  std::int64_t allreduce_epochs = 0;  ///< epochs of allreduce at the start (post-local SGD)
};

}  // namespace unisono::strategies
