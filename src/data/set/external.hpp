#pragma once

#include <cstdint>
#include <string>

#include "unisono/data/dataset.hpp"
#include "unisono/data/hdf5.hpp"

// Sets whose values are in other files. Whoever made such a set chose which files of its user are read.
namespace unisono::data {

/// Opens the file of a set, or the files of a pattern as one, for reading. \throws DataError, also where it refers to
/// other files and `external_files` is false
hdf5::File open_set_file(const std::string& path, bool external_files);
inline hdf5::File open_set_file(const DataSettings& settings) {
  return open_set_file(settings.path, settings.external_files);
}

/// Hash of the references to other files and of the contents of these, with the files to which they refer in turn. Of a
/// file above 64 MiB: of 64 parts of 1 MiB, evenly spaced. 0: there are no references
std::uint64_t hash_of_external_files(const hdf5::File& file);

}  // namespace unisono::data
