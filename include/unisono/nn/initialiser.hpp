#pragma once

#include <cstdint>

#include "unisono/base/config.hpp"
#include "unisono/tensor/holding.hpp"

namespace unisono::nn {

inline constexpr Named<Initialiser> kInitialisers[] = {
    {Initialiser::he_normal, "he_normal", "normal, variance 2 / fan_in (He et al. 2015)"},
    {Initialiser::he_uniform, "he_uniform", "uniform, variance 2 / fan_in"},
    {Initialiser::glorot_normal, "glorot_normal", "normal, variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010)"},
    {Initialiser::glorot_uniform, "glorot_uniform", "uniform, variance 2 / (fan_in + fan_out)"},
    {Initialiser::lecun_normal, "lecun_normal", "normal, variance 1 / fan_in (LeCun et al. 1998)"},
    {Initialiser::lecun_uniform, "lecun_uniform", "uniform, variance 1 / fan_in"},
    {Initialiser::normal, "normal", "normal, with the standard deviation `deviation`"},
    {Initialiser::uniform, "uniform", "uniform in ±1/√fan_in, also for biases, as in PyTorch"},
    {Initialiser::zeros, "zeros", "all 0"},
    {Initialiser::ones, "ones", "all 1"}};

/// Overwrites every block of a vector, as its `initialiser` says, and the floats between blocks with zeros. A value
/// depends only on the seed, the block's number and the value's canonical position in the block.
void initialise(const ParameterLayout& layout, std::uint64_t seed, MutableView vector);

/// Draws the initial values of what a rank holds of a vector. The numbers of blocks and the positions are those in the
/// whole vector, so that the values do not depend on who holds them. The floats that are in no shard become zero.
void initialise(const Holding& holding, std::uint64_t seed, MutableView vector);

}  // namespace unisono::nn
