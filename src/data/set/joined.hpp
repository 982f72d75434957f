#pragma once

#include <string>

#include "unisono/data/hdf5.hpp"

// Several HDF5 files as one set. Their examples follow each other in the order of the files' names.
namespace unisono::data {

/// Opens the files of a pattern as one. Each of the groups 'train', 'validation' and 'test' has the examples of all
/// files that have it. \throws DataError where no file fits the pattern, a file is no table, or two do not fit together
hdf5::File open_joined(const std::string& pattern, bool external_files);

}  // namespace unisono::data
