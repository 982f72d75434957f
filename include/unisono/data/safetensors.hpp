#pragma once

#include <string>
#include <vector>

#include "unisono/data/tensors.hpp"

// Files in the format safetensors (https://huggingface.co/docs/safetensors), by which programs exchange weights: 8
// bytes that give the length of the header, little-endian; the header, a JSON object of the tensors' types, shapes and
// places; the values of all tensors, row-major, one after the other.

namespace unisono::data {

/// Reads the header of a file, and checks that each tensor's bytes are in the file and belong to no other one. \throws
/// DataError naming the file, and the tensor where one is wrong
StoredTensors read_safetensors(const std::string& path);

/// Reads the headers of all files that an index names, which says for each tensor in which file of its folder it is:
/// model.safetensors.index.json. \throws DataError, also where a file lacks a tensor that the index says it has
StoredTensors read_safetensors_index(const std::string& path);

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
