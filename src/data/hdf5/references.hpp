#pragma once

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {

/// A type in memory as which the library gives strings of variable length as they are stored, without following them
/// into the heap: HeapReference::kBytes each. Reading as this type fails where addresses do not have 8 bytes.
Handle reference_type();

}  // namespace unisono::data::hdf5
