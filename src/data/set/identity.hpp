#pragma once

#include "dense/schema.hpp"

namespace unisono::data {

/// Hash of shapes, types, sizes, and some rows of each group, evenly spread.
std::uint64_t identity_of(const hdf5::File& file, const SetSchema& schema);

}  // namespace unisono::data
