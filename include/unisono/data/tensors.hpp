#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

// Named tensors in files of weights: safetensors, NumPy's .npz, and HDF5 files that `unisono export` wrote.

namespace unisono::data {

/// What a file of tensors is.
enum class TensorFormat { safetensors, safetensors_index, npz, hdf5 };

/// Where a tensor's values are.
struct StoredTensor {
  std::string file;               ///< its path
  std::string type;               ///< as safetensors spells it: "F32", "BF16", "I64", …
  std::vector<Index> shape = {};  ///< empty: a single number
  /// Of its values, from the start of the file; of an entry of an .npz file: where the archive's directory describes
  /// it.
  std::uint64_t first_byte = 0;
  TensorFormat format = TensorFormat::safetensors;
  std::string name = {};   ///< in the file
  std::string group = {};  ///< HDF5: the group that it is in
  Index number = 0;        ///< its place in the order of the file

  Index size() const;             ///< how many numbers it has
  bool holds_parameters() const;  ///< whether it is of a type that read_tensor takes
  bool operator==(const StoredTensor&) const = default;
};

/// The tensors of a file, or of several ones, by name.
using StoredTensors = std::map<std::string, StoredTensor>;

/// Whether a file is one of weights by its contents, or at least by its name; also where it is one that read_tensors
/// refuses, such as a pickle.
bool names_tensor_file(const std::string& path);

/// The tensors of a file: what it is is seen from its contents. Values are not read yet. Nothing of a pickle is ever
/// unpickled. \throws DataError naming the file, and the tensor where one is wrong; for files of PyTorch it says how
/// they become safetensors
StoredTensors read_tensors(const std::string& path);

/// Reads consecutive numbers of a tensor of type F64, F32, F16 or BF16. \param name for messages \param first the
/// number of the first one \param values [at most tensor.size() − first], overwritten \throws DataError for other
/// types, for damaged files, and for numbers that are not finite, also because they are too large for float32
void read_tensor(const std::string& name, const StoredTensor& tensor, Index first, MutableView values);

}  // namespace unisono::data
