#pragma once

#include <memory>
#include <vector>

#include "cpu/loops.hpp"
#include "unisono/kernels/encoders.hpp"
#include "unisono/kernels/linear.hpp"

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

/// The kernels of one instruction set. \pre available
std::unique_ptr<InPlaceKernels> in_place_kernels_for(InstructionSet set);

/// The kernels of one instruction set. \pre available
std::unique_ptr<LeastSquaresKernels> least_squares_kernels_for(InstructionSet set);

/// The kernels of one instruction set. \pre available
std::unique_ptr<LinearPasses> linear_passes_for(InstructionSet set, int threads);

// The encoders of one instruction set, for tests.
std::unique_ptr<Encoder> bf16_encoder_for(InstructionSet set);
std::unique_ptr<Encoder> eight_bit_encoder_for(InstructionSet set);
std::unique_ptr<Encoder> one_bit_encoder_for(InstructionSet set);
std::unique_ptr<Encoder> threshold_encoder_for(InstructionSet set, const ThresholdSettings& settings);
std::unique_ptr<Encoder> top_k_encoder_for(InstructionSet set, double density);

inline constexpr Index kWordBits = 64;

inline Index words_of(Index n) { return (n + kWordBits - 1) / kWordBits; }

/// The words or floats that a message holds from `at` on, which is a multiple of their size.
template <typename T>
T* at(std::span<std::byte> message, Index offset) {
  return reinterpret_cast<T*>(message.data() + offset);
}
template <typename T>
const T* at(std::span<const std::byte> message, Index offset) {
  return reinterpret_cast<const T*>(message.data() + offset);
}

}  // namespace unisono::kernels::cpu
