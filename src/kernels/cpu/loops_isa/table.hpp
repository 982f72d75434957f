#pragma once

#include "cpu/loops.hpp"

// Each file of this folder enters its loops into the table.

namespace unisono::cpu::UNISONO_ISA {

void add_products(Loops& loops);
void add_transpose(Loops& loops);
void add_peak(Loops& loops);

}  // namespace unisono::cpu::UNISONO_ISA
