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

/// Overwrites every block of a vector, as its `initialiser` says, and the floats between blocks with zeros. A value
/// depends only on the seed, the block's number and its canonical position in the block.
void initialise(const ParameterLayout& layout, std::uint64_t seed, MutableView vector);

/// The same for a rank's shards of a vector. The block's number and the position are those in the whole vector, so the
/// values do not depend on how it is sharded.
void initialise(const ShardMap& map, int rank, std::uint64_t seed, MutableView vector);

}  // namespace unisono::nn
