#pragma once

#include <hdf5.h>

#include <cstdint>
#include <string>
#include <vector>

namespace unisono::data::hdf5 {

struct VirtualSource {
  std::string file;  ///< ".": the file of the virtual dataset itself
  std::string dataset;
};

/// The sources of a virtual dataset. \param properties of its creation
std::vector<VirtualSource> virtual_sources(hid_t properties);

/// Where the library looks for a source file (H5F_prefix_open_file). \param path of the file with the virtual dataset
std::vector<std::string> places_of_source(const std::string& source, const std::string& path);

/// Part of a dataset's values in a plain file.
struct RawFilePart {
  std::string name;   ///< as it is stored
  std::string place;  ///< where the library looks for it
  std::uint64_t offset = 0, bytes = 0;
};

/// The external raw storage of a dataset; empty: it has none. \param properties of its creation
std::vector<RawFilePart> raw_file_parts(hid_t properties);

}  // namespace unisono::data::hdf5
