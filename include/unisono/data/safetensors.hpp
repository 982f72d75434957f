#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "unisono/tensor/allocator.hpp"

// Files in the format safetensors (https://huggingface.co/docs/safetensors), by which programs exchange weights: 8
// bytes that give the length of the header, little-endian; the header, a JSON object of the tensors' types, shapes and
// places; the values of all tensors, row-major, one after the other.

namespace unisono::data {

/// Where a tensor's values are.
struct StoredTensor {
  std::string file;               ///< its path
  std::string type;               ///< as the format spells it: "F32", "BF16", "I64", …
  std::vector<Index> shape = {};  ///< empty: a single number
  std::uint64_t first_byte = 0;   ///< of its values, from the start of the file

  Index size() const;  ///< how many numbers it has
  bool operator==(const StoredTensor&) const = default;
};

/// The tensors of a file, or of several ones, by name.
using StoredTensors = std::map<std::string, StoredTensor>;

/// Reads the header of a file, and checks that each tensor's bytes are in the file and belong to no other one. \throws
/// DataError naming the file, and the tensor where one is wrong
StoredTensors read_safetensors(const std::string& path);

/// Reads the headers of all files that an index names, which says for each tensor in which file of its folder it is:
/// model.safetensors.index.json. \throws DataError, also where a file lacks a tensor that the index says it has
StoredTensors read_safetensors_index(const std::string& path);

/// Reads consecutive numbers of a tensor of type F64, F32, F16 or BF16. \param name for messages \param first the
/// number of the first one \param values [at most tensor.size() − first], overwritten \throws DataError for other
/// types, and for numbers that are too large for float32
void read_tensor(const std::string& name, const StoredTensor& tensor, Index first, MutableView values);

/// A tensor of float32 that is to be written.
struct NamedShape {
  std::string name;
  std::vector<Index> shape;
};

/// How the headers of safetensors_header begin, after the 8 bytes of the header's length.
inline constexpr const char* kOwnSafetensors = R"({"__metadata__":{"format":"pt","written_by":"unisono"})";

/// The beginning of a file of float32 tensors; their values follow in this order, without gaps.
std::string safetensors_header(const std::vector<NamedShape>& tensors);

}  // namespace unisono::data
