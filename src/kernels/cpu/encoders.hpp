#pragma once

#include <memory>

#include "cpu/instruction_set.hpp"
#include "unisono/kernels/encoders.hpp"

namespace unisono::kernels::cpu {

// The encoders of one instruction set, for tests.
std::unique_ptr<Encoder> bf16_encoder_for(InstructionSet set);
std::unique_ptr<Encoder> eight_bit_encoder_for(InstructionSet set);
std::unique_ptr<Encoder> one_bit_encoder_for(InstructionSet set);
std::unique_ptr<Encoder> threshold_encoder_for(InstructionSet set, const ThresholdSettings& settings);
std::unique_ptr<Encoder> top_k_encoder_for(InstructionSet set, double density);

}  // namespace unisono::kernels::cpu
