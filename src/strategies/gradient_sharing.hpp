#pragma once

#include <cstdint>

namespace unisono::strategies {

/// The keys of strategy.kind = "gradient_sharing".
struct GradientSharingSettings {
  double threshold = 0;               ///< τ, in units of θ; 0: by density
  double density = 0.01;              ///< share of the values that are sent, where τ is adapted
  std::int64_t staleness_bound = -1;  ///< steps that a rank may be ahead of another's updates; −1: any number

  bool is_bounded() const { return staleness_bound >= 0; }
  /// All ranks apply the updates of a step together, before the next one.
  bool is_synchronous() const { return staleness_bound == 0; }
};

}  // namespace unisono::strategies
