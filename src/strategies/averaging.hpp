#pragma once

#include "averaging/averages.hpp"
#include "parameter_average.hpp"
#include "unisono/parallel/compressed_sum.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// What happens to the ranks' optimizer states when θ is averaged.
enum class StateAtAverage { average, keep, reset };

/// The keys of strategy.kind = "averaging".
struct AveragingSettings {
  std::int64_t period = 16;       ///< steps between averages of all ranks; 0: adaptive
  std::int64_t first_period = 0;  ///< of adaptive ones; 0: 16
  std::int64_t node_period = 0;   ///< steps between averages within a node; 0: there are none
  bool overlap = false;           ///< each average is applied a period later
  MergeSettings merge{};
  StateAtAverage optimizer_state = StateAtAverage::average;
  std::int64_t allreduce_epochs = 0;  ///< epochs of allreduce at the start (post-local SGD)
  OuterSettings outer{};
  parallel::CompressionSettings compression{};

  bool is_adaptive() const { return period == 0; }
  /// Of all periods, or the first of adaptive ones.
  std::int64_t longest_period() const {
    constexpr std::int64_t kFirst = 16;
    if (!is_adaptive()) return period;
    return first_period > 0 ? first_period : kFirst;
  }
  void describe(ConfigVisitor& visitor);
  /// Refuses keys that mean nothing for the model. \throws ConfigError
  void require_possible(const models::Model& model) const;

 private:
  void require_compressible(const models::Model& model) const;
};

}  // namespace unisono::strategies
