// What lies before HDF5: the walk through a file's groups, headers and trees, and the reader of strings of variable
// length, on any bytes; the first 16 say where a string is.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "hdf5/structure.hpp"
#include "unisono/base/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unisono;
  const int file = memfd_create("names", MFD_CLOEXEC);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    unisono::data::hdf5::check_structure("/proc/self/fd/" + std::to_string(file));
  } catch (const unisono::DataError&) {
  }
  try {
    const unisono::RawFile raw("fuzzed", file);
    unisono::data::hdf5::HeapReader heap(raw, 0);
    std::size_t bytes = 0;
    for (std::size_t at = 0; at + unisono::data::hdf5::HeapReference::kBytes <= size;
         at += unisono::data::hdf5::HeapReference::kBytes)
      bytes +=
          heap.string_at(unisono::data::hdf5::decode_reference(reinterpret_cast<const std::byte*>(data) + at)).size();
    if (bytes > size) std::abort();
  } catch (const unisono::DataError&) {
  }
  close(file);
  return 0;
}
