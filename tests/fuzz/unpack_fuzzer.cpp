// The readers of gzip and zstd on any bytes, with buffers of two sizes: the same text, or the same end in a DataError
// that names the file. The first byte is the smaller size.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "import/unpack.hpp"
#include "unisono/base/errors.hpp"

namespace {

/// The first bytes of what is packed; with a "!" at the end where the rest cannot be unpacked.
std::string text_of(std::string_view packed, std::size_t piece) {
  constexpr std::size_t kMost = 1 << 20;
  std::string text;
  try {
    const auto source = unisono::data::unpacked(unisono::data::bytes_of(packed, "fuzzed"));
    std::vector<char> buffer(piece);
    for (std::size_t count = piece; count == piece && text.size() < kMost;) {
      count = source->read(buffer);
      if (count > piece) std::abort();
      text.append(buffer.data(), count);
    }
  } catch (const unisono::DataError& error) {
    if (!std::string(error.what()).starts_with("fuzzed")) std::abort();  // says no place
    return "!";
  }
  return text.substr(0, kMost);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view packed(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = text_of(packed, 1 << 20), pieces = text_of(packed, std::size_t{data[0]} + 1);
  // What comes before damage may be as long as is looked at here.
  if (whole != pieces && whole != "!" && pieces != "!") std::abort();
  return 0;
}
