#include "unisono/base/random.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

namespace unisono {
namespace {

/// The first `n` bytes of the buffer that xxHash's own sanity check hashes.
std::string sanity_bytes(std::size_t n) {
  std::string bytes;
  for (std::uint64_t generator = 2654435761; bytes.size() < n; generator *= 11400714785074694797ULL) {
    bytes += static_cast<char>(generator >> 56);
  }
  return bytes;
}

TEST_CASE("hashes are XXH3's: files keep their checksums on every machine and in every release", "[hash]") {
  // xxHash 0.8.1, cli/xsum_sanity_check.c, XXH3_64bits with seed 0.
  CHECK(hash_bytes("") == 0x2D06800538D394C2);
  CHECK(hash_bytes(sanity_bytes(1)) == 0xC44BDFF4074EECDB);
  CHECK(hash_bytes(sanity_bytes(6)) == 0x27B56A84CD2D7325);
  CHECK(hash_bytes(sanity_bytes(12)) == 0xA713DAF0DFBB77E7);
}

TEST_CASE("bytes and text hash alike, every bit and the seed count", "[hash]") {
  const std::string text = "parameters";
  const auto bytes = std::as_bytes(std::span(text));
  CHECK(hash_bytes(bytes) == hash_bytes(text));
  CHECK(hash_bytes(text, 1) != hash_bytes(text));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string flipped = text;
    flipped[i] = static_cast<char>(flipped[i] ^ 1);
    CHECK(hash_bytes(flipped) != hash_bytes(text));
  }
}

TEST_CASE("a file's hash goes on from one MiB to the next, and ends where it is told", "[hash]") {
  const std::string text = sanity_bytes((1 << 20) + 7);
  const std::string_view all = text, first = all.substr(0, 1 << 20);
  std::istringstream file(text);
  CHECK(hash_stream(file, text.size()) == hash_bytes(all.substr(1 << 20), hash_bytes(first)));
  file = std::istringstream(text);
  CHECK(hash_stream(file, 1 << 20) == hash_bytes(first));
  CHECK(hash_stream(file) == hash_bytes(all.substr(1 << 20)));  // what is left
}

}  // namespace
}  // namespace unisono
