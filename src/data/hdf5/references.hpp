#pragma once

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {

/// A memory type for reading strings of variable length as the stored references, HeapReference::kBytes each, without
/// following them into the heap. Reading as this type fails if addresses do not have 8 bytes.
Handle reference_type();

}  // namespace unisono::data::hdf5
