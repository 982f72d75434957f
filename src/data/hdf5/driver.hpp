#pragma once

#include <hdf5.h>

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {

/// Makes the library read files by its own driver (sec2) but without its metadata accumulator, which crashes on damaged
/// addresses because it computes with them before they are compared with the file's size (1.10.8, H5F__accum_read).
/// \param path any file that can be opened: its driver is copied and modified
void read_without_accumulator(const Handle& access, const char* path);

}  // namespace unisono::data::hdf5
