#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "unisono/base/config.hpp"
#include "unisono/tensor/shard_map.hpp"

namespace unisono::nn {

/// The initialisers that a config may name, with their formulas.
const std::vector<Choice>& initialiser_choices();

/// Standard deviation of the values that an initialiser draws for a block; 0 for constants.
double initialiser_deviation(const Block& block);

/// Overwrites every block of a vector, as its `initialiser` says, and the floats between blocks with zeros. A function
/// of the seed, the block's number and the canonical position alone.
void initialise(const ParameterLayout& layout, std::uint64_t seed, MutableView vector);

/// The same for what a rank holds of a divided vector: a number's value depends on its block's number and its position
/// in the whole block alone, wherever it lies.
void initialise(const ShardMap& map, int rank, std::uint64_t seed, MutableView vector);

}  // namespace unisono::nn
