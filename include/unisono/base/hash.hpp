#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace unisono {

/// XXH3 (64 bits): checksums and identities, no protection against malice. `seed` continues an earlier hash.
std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_bytes(std::string_view text, std::uint64_t seed = 0);

}  // namespace unisono
