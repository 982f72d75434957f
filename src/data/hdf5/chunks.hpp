#pragma once

#include <hdf5.h>

#include <cstdint>

namespace unisono::data::hdf5 {

/// Whether chunks hold as many bytes as the dataset's chunk extents say; of packed ones the first is looked at. The
/// library (1.10) takes that for granted, and copies from beyond a chunk that is smaller.
/// \param value_bytes of a value in the file \param file_bytes more than these are not read
bool chunks_fit(hid_t dataset, hid_t properties, std::uint64_t value_bytes, std::uint64_t file_bytes);

}  // namespace unisono::data::hdf5
