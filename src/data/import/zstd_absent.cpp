// Compiled in place of zstd/ where the library is not found.
#include "import/unpack.hpp"

namespace unisono::data {

std::unique_ptr<ByteSource> unpacked_zstd(PackedBytes packed) {
  throw DataError(fmt::format(
      "{}: is compressed with zstd, which this unisono was built without (libzstd-dev was not found); unpack it with "
      "'zstd -d', or compress it with gzip",
      packed.name()));
}

}  // namespace unisono::data
