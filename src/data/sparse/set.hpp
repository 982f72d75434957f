#pragma once

#include "sparse/schema.hpp"

namespace unisono::data {

/// Opens a set that is no table: it is resident, one copy a node. Collective; see open_dataset.
/// \param trained not null: it is only to be evaluated by that model: its examples then keep the file's order
/// \throws DataError where the file cannot be brought into the form that the model was trained on
std::unique_ptr<Dataset> open_sparse_set(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                         const Preprocessing* trained);

/// What it would say, as far as the values need not be read.
DatasetInfo inspect_sparse_set(const DataSettings& settings, const hdf5::File& file);

}  // namespace unisono::data
