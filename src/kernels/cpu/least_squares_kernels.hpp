#pragma once

#include "cpu/instruction_set.hpp"
#include "unisono/kernels/least_squares.hpp"

namespace unisono::kernels::cpu {

/// The kernels of one instruction set. \pre available
std::unique_ptr<LeastSquaresKernels> least_squares_kernels_for(InstructionSet set);

}  // namespace unisono::kernels::cpu
