#pragma once

namespace unisono::optim {

/// `[optimizer] kind = "als"`
struct AlsSettings {
  double function_tolerance = 1e-6;  ///< the run ends where an iteration changes the objective by at most
                                     ///< this share of it; 0: never
};

}  // namespace unisono::optim
