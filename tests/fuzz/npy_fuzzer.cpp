// The reader of NumPy's arrays on any bytes, whose length it knows or not: as many values as the header announces, or a
// DataError that names the file.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "import/arrays.hpp"
#include "unisono/base/errors.hpp"

namespace {

/// \param size of the input: an array has no more values than that
void check(unisono::data::NpyReader reader, std::size_t size) {
  std::size_t count = 1;
  for (const std::int64_t n : reader.form().extent) {
    if (n < 0) std::abort();
    if (n == 0) count = 0;
    count = std::min<std::size_t>(count * static_cast<std::size_t>(n), size + 1);  // no overflow
  }
  std::vector<double> values(count);
  reader.read(values);
  reader.finish();
  if (count > size) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool known : {true, false}) {
    try {
      check({unisono::data::bytes_of(text, "fuzzed"), known ? std::optional<std::uint64_t>(size) : std::nullopt}, size);
    } catch (const unisono::DataError& error) {
      if (!std::string(error.what()).starts_with("fuzzed")) std::abort();  // says no place
    }
  }
  return 0;
}
