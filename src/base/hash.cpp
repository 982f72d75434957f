#include "unisono/base/hash.hpp"

#include <xxhash.h>

#include <algorithm>
#include <istream>
#include <vector>

namespace unisono {
namespace {

constexpr std::uint64_t kChunkBytes = 1 << 20;  // part of the format of checkpoints

}  // namespace

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::uint64_t hash_stream(std::istream& file, std::uint64_t bytes) {
  std::vector<char> chunk(kChunkBytes);
  std::uint64_t hash = 0;
  while (bytes > 0 && file) {
    const auto count = std::min(bytes, kChunkBytes);
    file.read(chunk.data(), static_cast<std::streamsize>(count));
    if (file.gcount() == 0) break;
    hash = hash_bytes(std::string_view(chunk.data(), static_cast<std::size_t>(file.gcount())), hash);
    bytes -= count;
  }
  return hash;
}

}  // namespace unisono
