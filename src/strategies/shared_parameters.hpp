#pragma once

#include "unisono/tensor/allocator.hpp"

// θ that several threads read and write at the same time, without locks where `locking = "none"`.

namespace unisono {

/// own ← shared
void read_shared(const float* shared, float* own, Index n);
/// shared ← shared + (after − before); just `after` where nobody changed it since it was read
void add_to_shared(const float* before, const float* after, float* shared, Index n);

}  // namespace unisono
