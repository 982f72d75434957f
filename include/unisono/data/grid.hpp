#pragma once

#include "unisono/tensor/layout.hpp"

namespace unisono::data {

/// A cyclic (round-robin) distribution of things 0 … n−1 to parts: thing i goes to part i mod parts and has number i /
/// parts there. The parts' sizes differ by at most 1, and neighbouring numbers go to different parts.
struct CyclicDistribution {
  Index things = 0, parts = 1;

  /// Things in a part.
  Index size(Index part) const { return (things - part + parts - 1) / parts; }
  Index largest() const { return size(0); }
};

}  // namespace unisono::data
