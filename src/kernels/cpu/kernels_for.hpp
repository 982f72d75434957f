#pragma once

#include "cpu/instruction_set.hpp"
#include "unisono/kernels/least_squares.hpp"
#include "unisono/kernels/linear.hpp"

namespace unisono::kernels::cpu {

/// The kernels of one instruction set. \pre available
std::unique_ptr<InPlaceKernels> in_place_kernels_for(InstructionSet set);

/// The kernels of one instruction set. \pre available
std::unique_ptr<LeastSquaresKernels> least_squares_kernels_for(InstructionSet set);

/// The kernels of one instruction set. \pre available
std::unique_ptr<LinearPasses> linear_passes_for(InstructionSet set, int threads);

}  // namespace unisono::kernels::cpu
