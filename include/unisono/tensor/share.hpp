#pragma once

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// n · part / whole, without the overflow of the product.
inline Index share_of(Index n, Index part, Index whole) { return n / whole * part + n % whole * part / whole; }

}  // namespace unisono
