#include "unisono/tensor/huge_pages.hpp"

#include <sys/mman.h>

#include <cstdint>

namespace unisono {

void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage, last = end / kHugePage * kHugePage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace unisono
