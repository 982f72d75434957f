#pragma once

#include <vector>

#include "cpu/loops.hpp"

namespace unisono::kernels::cpu {

/// The instruction sets that the inner loops are compiled for, slowest first. `blis` is the portable loops with the
/// matrix products of BLIS, which chooses instructions by itself.
enum class InstructionSet { portable, blis, avx2, avx512 };

/// Those that both this build and this CPU have, slowest first; never empty.
std::vector<InstructionSet> available_instruction_sets();

/// The fastest of them up to the one that the environment's UNISONO_MAX_ISA names: portable, blis, avx2 or
/// avx512.
/// \throws ConfigError where that is something else
InstructionSet chosen_instruction_set();

/// \pre available
Loops loops_for(InstructionSet set);
/// The same loops for blocks of 8 lanes: those of AVX2, where the vectors of a set are longer. There they waste no part
/// of a vector, and CPUs that compute AVX-512's vectors in two halves take half the time.
Loops narrow_loops_for(InstructionSet set);

}  // namespace unisono::kernels::cpu
