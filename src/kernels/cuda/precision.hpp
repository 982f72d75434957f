#pragma once

#include <cstddef>

#include "unisono/kernels/cuda.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::kernels::cuda {

/// How activations are stored: as floats, or as bfloat16, two in the space of a float. Parameters, gradients, losses
/// and sums are floats or doubles in any precision.
inline bool stores_halves(Precision precision) { return precision == Precision::bf16; }
inline std::size_t activation_bytes(Precision precision) { return stores_halves(precision) ? 2 : sizeof(float); }
/// Floats that hold so many values of activations.
inline Index activation_floats(Precision precision, Index values) {
  return stores_halves(precision) ? (values + 1) / 2 : values;
}

}  // namespace unisono::kernels::cuda
