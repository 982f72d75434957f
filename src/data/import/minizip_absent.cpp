// Compiled in place of minizip/ where minizip is not found.
#include <fmt/format.h>

#include "import/arrays.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::data {

std::vector<ArchiveEntry> list_archive(const std::string& path) {
  throw DataError(fmt::format(
      "{}: reading .npz files needs minizip, and this unisono was built without it; install libminizip-dev and build "
      "again, or save the arrays with numpy.save and use 'data import npy'",
      path));
}

std::unique_ptr<ByteSource> open_entry(const std::string& path, const ArchiveEntry&) {
  list_archive(path);
  return nullptr;
}

}  // namespace unisono::data
