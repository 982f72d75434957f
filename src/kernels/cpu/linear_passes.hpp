#pragma once

#include "cpu/instruction_set.hpp"
#include "unisono/kernels/linear.hpp"

namespace unisono::kernels::cpu {

/// The kernels of one instruction set. \pre available
std::unique_ptr<LinearPasses> linear_passes_for(InstructionSet set, int threads);

}  // namespace unisono::kernels::cpu
