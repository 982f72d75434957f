// Files of weights of any bytes, read as a safetensors file and as an index of such files: they are refused with a data
// error, or all of their tensors lie in the file, beside each other, and can be read if they are of floats.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "unisono/base/errors.hpp"
#include "unisono/data/safetensors.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void read_all(const unisono::data::StoredTensors& tensors, std::size_t size) {
  for (const auto& [name, tensor] : tensors) {
    const auto numbers = static_cast<std::size_t>(tensor.size());
    require(tensor.first_byte <= size && numbers <= size);
    std::vector<float> values(numbers);
    try {
      unisono::data::read_tensor(name, tensor, 0, values);
    } catch (const unisono::DataError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("tensors", MFD_CLOEXEC);
  require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try {
    read_all(unisono::data::read_safetensors(path), size);
  } catch (const unisono::DataError&) {
  }
  try {
    unisono::data::read_safetensors_index(path);
  } catch (const unisono::DataError&) {
  }
  close(file);
  return 0;
}
