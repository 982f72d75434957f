#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {

/// The extent of a dataset; empty for a scalar.
std::vector<hsize_t> extent_of(hid_t dataset);

/// The dataspaces of a transfer of rows: in the file and in memory.
struct RowSelection {
  Handle file, memory;
};

/// \pre first + count ≤ extent[0]
RowSelection select_rows(hid_t dataset, std::vector<hsize_t> extent, hsize_t first, hsize_t count);

/// What is wrong with rows that are out of the dataset's range; empty if they are not.
std::string outside(const std::vector<hsize_t>& extent, std::uint64_t first, std::uint64_t count);

}  // namespace unisono::data::hdf5
