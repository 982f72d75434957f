#pragma once

#include "sparse/schema.hpp"
#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// Opens a set with dense features. Collective; see open_dataset.
std::unique_ptr<Dataset> open_table(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);

/// The info of such a set, without reading it into memory.
DatasetInfo inspect_table(const DataSettings& settings, const hdf5::File& file);

/// Opens a set that is not a table; it is always resident, one copy per node. Collective; see open_dataset.
/// \param trained not null: the set is only evaluated with this trained model, and its examples keep the file's order
/// \throws DataError where the file cannot be brought into the form that the model was trained on
std::unique_ptr<Dataset> open_sparse_set(const DataSettings& settings, std::uint64_t seed, const NodeShare& share,
                                         const Preprocessing* trained);

/// The info of such a set, as far as it can be told without reading all values.
DatasetInfo inspect_sparse_set(const DataSettings& settings, const hdf5::File& file);

}  // namespace unisono::data
