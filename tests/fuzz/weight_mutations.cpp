// Files of weights that were damaged. What is read of them is right: an array of an .npz file is one of the file before
// the damage, since its checksum holds; a tensor of a safetensors file has the bytes at its place; no file of PyTorch
// is read.
//   weight_mutations COUNT SEED FOLDER…

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "mutations.hpp"
#include "unisono/base/errors.hpp"
#include "unisono/data/tensors.hpp"

namespace unisono::test {
namespace {

using data::StoredTensor;

struct Array {
  std::vector<Index> shape;
  std::vector<float> values;
  bool operator==(const Array&) const = default;
};

constexpr Index kMostNumbers = 1 << 20;  // as of a small model: larger tensors do not fit it, and are not read

bool is_small(const StoredTensor& tensor) {
  Index size = 1;
  for (const Index n : tensor.shape) {
    if (__builtin_mul_overflow(size, n, &size) || size > kMostNumbers) return false;
  }
  return true;
}

Array array_of(const std::string& name, const StoredTensor& tensor) {
  Array array{tensor.shape, std::vector<float>(static_cast<std::size_t>(tensor.size()))};
  data::read_tensor(name, tensor, 0, array.values);
  return array;
}

/// The arrays of files before they are damaged.
const std::vector<Array>& arrays_before(const Seed& seed) {
  static std::map<std::string, std::vector<Array>> known;
  std::vector<Array>& arrays = known[seed.path];
  if (!arrays.empty()) return arrays;
  for (const auto& [name, tensor] : data::read_tensors(seed.path)) {
    if (tensor.holds_parameters()) arrays.push_back(array_of(name, tensor));
  }
  return arrays;
}

void require(bool holds, const std::string& what) {
  if (!holds) throw std::logic_error(what);
}

/// Compares with the bytes of the file.
void require_plain(const StoredTensor& tensor, const Array& array, const std::string& bytes) {
  if (tensor.type != "F32") return;
  std::vector<float> there(array.values.size());
  require(tensor.first_byte <= bytes.size() && there.size() * sizeof(float) <= bytes.size() - tensor.first_byte,
          "a tensor is beyond the file's end");
  std::memcpy(there.data(), bytes.data() + tensor.first_byte, there.size() * sizeof(float));
  require(there == array.values, "other values than the file's");
}

void require_right(const StoredTensor& tensor, const Array& array, const std::string& path, const Seed& seed) {
  const auto is_finite = [](float number) { return std::isfinite(number); };
  require(std::ranges::all_of(array.values, is_finite), "values are not finite");
  if (tensor.format == data::TensorFormat::npz) {
    const std::vector<Array>& before = arrays_before(seed);
    require(std::ranges::find(before, array) != before.end(), "'" + tensor.name + "' is no array of the file");
  } else if (tensor.format == data::TensorFormat::safetensors) {
    std::ifstream file(path, std::ios::binary);
    require_plain(tensor, array, {std::istreambuf_iterator<char>(file), {}});
  }
}

Outcome use_weights(const std::string& path, const Seed& seed) {
  Outcome outcome = Outcome::read;
  try {
    const data::StoredTensors tensors = data::read_tensors(path);
    require(!seed.name.ends_with(".pt") && !seed.name.ends_with(".bin"), "a pickle was read");
    for (const auto& [name, tensor] : tensors) {
      if (!is_small(tensor) || !tensor.holds_parameters()) continue;
      try {
        require_right(tensor, array_of(name, tensor), path, seed);
      } catch (const DataError&) {
        outcome = Outcome::refused;
      }
    }
    return outcome;
  } catch (const DataError&) {
    return Outcome::refused;
  }
}

}  // namespace
}  // namespace unisono::test

int main(int argc, char** argv) { return unisono::test::use_mutations(argc, argv, unisono::test::use_weights); }
