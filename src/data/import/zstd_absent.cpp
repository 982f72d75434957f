// Compiled in place of zstd/ where the library is not found.
#include "import/unpack.hpp"

namespace unisono::data {

std::unique_ptr<ByteSource> unpacked_zstd(PackedBytes packed) {
  throw DataError(fmt::format(
      "{}: is compressed with zstd, and this unisono was built without it; unpack the file with 'zstd -d', or install "
      "libzstd-dev and build again",
      packed.name()));
}

}  // namespace unisono::data
