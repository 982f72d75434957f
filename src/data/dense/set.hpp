#pragma once

#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

namespace unisono::data {

/// Opens a set with dense features. Collective; see open_dataset.
std::unique_ptr<Dataset> open_table(const DataSettings& settings, const NodeShare& share, const Preprocessing* trained);

/// The info of such a set, without reading it into memory.
DatasetInfo inspect_table(const DataSettings& settings, const hdf5::File& file);

}  // namespace unisono::data
