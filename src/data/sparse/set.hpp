#pragma once

#include "sparse/schema.hpp"

namespace unisono::data {

/// Opens a set that is no table: it is resident, one copy a node. Collective; see open_dataset.
/// \param trained whether it is only to be evaluated: its examples then keep the file's order
std::unique_ptr<Dataset> open_sparse_set(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                         bool trained);

/// What it would say, as far as the values need not be read.
DatasetInfo inspect_sparse_set(const DataSettings& settings, const hdf5::File& file);

}  // namespace unisono::data
