#pragma once

#include <memory>
#include <string>

#include "import/arrays.hpp"
#include "unisono/data/tensors.hpp"

// Arrays in files of other formats as tensors. Their values are read from the first one to the last one.
namespace unisono::data {

/// The arrays NAME.npy of a zip file. \throws DataError, also for arrays of Python objects, which are pickles
StoredTensors read_npz_tensors(const std::string& path);
std::unique_ptr<ArrayReader> open_npz_tensor(const StoredTensor& tensor);

/// Whether an HDF5 file has what `unisono export --format hdf5` writes, and nothing else.
bool is_hdf5_export(const std::string& path);
/// The datasets of such a file. \throws DataError
StoredTensors read_hdf5_tensors(const std::string& path);
std::unique_ptr<ArrayReader> open_hdf5_tensor(const StoredTensor& tensor);

}  // namespace unisono::data
