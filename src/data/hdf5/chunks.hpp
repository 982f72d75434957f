#pragma once

#include <hdf5.h>

#include <cstdint>

namespace unisono::data::hdf5 {

/// Whether a dataset's chunks have as many bytes as their extents say; of compressed chunks only the first is checked.
/// The library (1.10) does not check this, and reads beyond the end of a chunk that is too small.
/// \param value_bytes of a value in the file \param file_bytes more than these are not read
bool chunks_fit(hid_t dataset, hid_t properties, std::uint64_t value_bytes, std::uint64_t file_bytes);

}  // namespace unisono::data::hdf5
