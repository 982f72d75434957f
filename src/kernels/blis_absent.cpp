// Compiled in place of blis/ where BLIS is not found.
#include <stdexcept>

#include "cpu/blis.hpp"

namespace unisono::kernels::cpu {

bool has_blis() { return false; }

Loops with_blis(Loops) { throw std::logic_error("with_blis: this build lacks BLIS"); }

}  // namespace unisono::kernels::cpu
