// The IDX reader on any bytes: an array whose extents give its values, all inside of the bytes, or a DataError.

#include <cstdint>
#include <cstdlib>

#include "import/raw_formats.hpp"
#include "unisono/base/errors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unisono;
  using namespace unisono::data;
  try {
    const unisono::data::IdxArray array = unisono::data::parse_idx({data, size}, "fuzzed");
    std::uint64_t count = 1;
    for (const std::int64_t extent : array.extent) count *= static_cast<std::uint64_t>(extent);
    if (array.extent.empty() || count != array.values.size()) std::abort();
    if (!array.values.empty() && (array.values.data() < data || array.values.data() + count != data + size))
      std::abort();
  } catch (const unisono::DataError&) {
  }
  return 0;
}
