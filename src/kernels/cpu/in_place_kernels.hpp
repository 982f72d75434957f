#pragma once

#include "cpu/instruction_set.hpp"

namespace unisono::kernels::cpu {

/// The kernels of one instruction set. \pre available
std::unique_ptr<InPlaceKernels> in_place_kernels_for(InstructionSet set);

}  // namespace unisono::kernels::cpu
