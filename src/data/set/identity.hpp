#pragma once

#include "dense/schema.hpp"

namespace unisono::data {

/// Hash of a set's shapes, types, sizes, and of some evenly spaced rows of each group; see DatasetInfo::identity.
std::uint64_t identity_of(const hdf5::File& file, const SetSchema& schema);

}  // namespace unisono::data
