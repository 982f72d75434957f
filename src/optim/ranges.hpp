#pragma once

#include <vector>

#include "unisono/tensor/layout.hpp"

namespace unisono {

/// Consecutive blocks of θ that an update rule treats alike, with the padding behind each: floats [first, last).
struct Range {
  Index first = 0, last = 0;
  bool decays = false;   ///< weight decay applies
  bool adapted = false;  ///< one block of weights with a trust ratio of its own (LARS, LAMB)
};

/// What divides θ into ranges.
struct RangeRules {
  bool decay = false;  ///< there is weight decay at all
  bool decay_biases_and_norms = false;
  bool adapt_weights = false;  ///< each block of weights is a range of its own
};

/// As few ranges as the rules allow, without gaps: one for the whole vector where all blocks are alike.
std::vector<Range> make_ranges(const ParameterLayout& layout, const RangeRules& rules);

}  // namespace unisono
