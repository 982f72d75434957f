#pragma once

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <span>
#include <string_view>

namespace unisono {

/// XXH3 (64 bits), for checksums and identities; not cryptographic. An earlier hash as `seed` chains the two.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0);

/// Hashes the next `bytes` of a file, or all that is left of it, in chunks of 1 MiB. Each chunk's hash is the seed of
/// the next, so the result differs from hash_bytes of the same bytes.
std::uint64_t hash_stream(std::istream& file, std::uint64_t bytes = std::numeric_limits<std::uint64_t>::max());

}  // namespace unisono
