// The reader of NumPy's zip files on any bytes: each of its arrays is read to its end, or there is a DataError.

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "import/arrays.hpp"
#include "unisono/base/errors.hpp"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// All bytes of an entry, and what makes an array of them.
void read_entry(const std::string& path, const unisono::data::ArchiveEntry& entry) {
  try {
    const auto source = unisono::data::open_entry(path, entry);
    std::vector<char> buffer(1 << 12);
    std::uint64_t bytes = 0;
    for (std::size_t count = buffer.size(); count == buffer.size(); bytes += count) count = source->read(buffer);
    require(bytes <= entry.bytes);
  } catch (const unisono::DataError&) {
  }
  try {
    const auto array = unisono::data::open_npz(
        path, entry.name.substr(0, entry.name.size() - std::min<std::size_t>(4, entry.name.size())));
    require(array->form().extent.size() < 200);
  } catch (const unisono::DataError&) {
  } catch (const unisono::ConfigError&) {  // no array of this name
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = memfd_create("arrays", MFD_CLOEXEC);
  require(file >= 0 && write(file, data, size) == static_cast<ssize_t>(size));
  const std::string path = "/proc/self/fd/" + std::to_string(file);
  try {
    for (const unisono::data::ArchiveEntry& entry : unisono::data::list_archive(path)) read_entry(path, entry);
  } catch (const unisono::DataError&) {
  }
  close(file);
  return 0;
}
