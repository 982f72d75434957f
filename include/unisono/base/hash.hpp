#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <span>
#include <string_view>

namespace unisono {

/// XXH3 (64 bits): checksums and identities, no protection against malice. `seed` continues an earlier hash.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0);

/// Of the next `bytes` of a file, or of all that is left of it, a MiB after the other: each continues the hash of those
/// before, so that it is not that of the bytes in one piece.
std::uint64_t hash_stream(std::istream& file, std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max());

}  // namespace unisono
