#pragma once

#include <hdf5.h>

#include "hdf5/handle.hpp"

namespace unisono::data::hdf5 {

/// Has files read by the library's own driver (sec2) without its accumulator of metadata, which computes with damaged
/// addresses before they are compared with the file's size, and crashes (1.10.8, H5F__accum_read).
/// \param path of a file that can be opened, whose driver is taken as the pattern
void read_without_accumulator(const Handle& access, const char* path);

}  // namespace unisono::data::hdf5
