#pragma once

#include "cpu/loops.hpp"

namespace unisono::kernels::cpu {

/// Whether this build has BLIS (github.com/flame/blis; Van Zee and van de Geijn, ACM TOMS 41(3), 2015).
bool has_blis();

/// The loops, with BLIS's product of large matrices. \pre has_blis()
Loops with_blis(Loops loops);

}  // namespace unisono::kernels::cpu
