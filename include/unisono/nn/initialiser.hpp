#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::nn {

/// The initialisers that a config may name, with their formulas.
const std::vector<Choice>& initialiser_choices();

/// Standard deviation of the values that an initialiser draws for a block; 0 for constants.
double initialiser_deviation(const Block& block);

/// Overwrites every block of a vector, as its `initialiser` says, and the floats between blocks with zeros. A function
/// of the seed, the block's number and the canonical position alone.
void initialise(const ParameterLayout& layout, std::uint64_t seed, MutableView vector);

}  // namespace unisono::nn
