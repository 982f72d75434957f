#pragma once

#include <vector>

#include "unisono/kernels/vector_kernels.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::optim {

/// The rules by which θ is divided into ranges.
struct RangeRules {
  bool decay = false;  ///< there is weight decay at all
  bool decay_biases_and_norms = false;
  bool adapt_weights = false;  ///< each block of weights is a range of its own, with a rate of its own (LARS, LAMB)
};

/// As few ranges as the rules allow: one for the whole vector where all blocks are alike. The padding after a block
/// belongs to its range. Frozen blocks are left out.
std::vector<kernels::UpdateRange> make_ranges(const ParameterLayout& layout, const RangeRules& rules);

}  // namespace unisono::optim
