#pragma once

#include <cstddef>

namespace unisono {

inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Asks for huge pages where they fit into this memory: random accesses then cause few TLB misses, and first writes few
/// page faults. A hint, which may have no effect.
void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept;

}  // namespace unisono
