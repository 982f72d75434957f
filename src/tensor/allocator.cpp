#include "unisono/tensor/allocator.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

constexpr std::size_t kPage = 4096;

/// Large memory is aligned to huge pages and asks for them: random accesses to rows then cause few TLB misses, which
/// took 10 to 17 % of the time of training word vectors.
void* allocate_units(std::size_t unit, std::size_t bytes) {
  if (bytes < 2 * kHugePage) return std::aligned_alloc(unit, bytes);
  void* pointer = nullptr;  // (aligned_alloc takes whole pages alone)
  if (::posix_memalign(&pointer, kHugePage, bytes) != 0) return nullptr;
  ask_for_huge_pages(pointer, bytes);
  return pointer;
}

/// Allocates in units of cache lines, or of pages.
class PlainAllocator final : public Allocator {
 public:
  explicit PlainAllocator(std::size_t unit) : unit_(unit) {}
  void* allocate(std::size_t bytes) override {
    const std::size_t units = bytes / unit_ + (bytes % unit_ == 0 ? 0 : 1);
    const std::size_t rounded = std::max<std::size_t>(units, 1) * unit_;
    const bool overflows = rounded < bytes;
    void* pointer = overflows ? nullptr : allocate_units(unit_, rounded);
    if (pointer == nullptr) {
      throw DeviceError(
          fmt::format("out of memory: {:.1f} MiB were asked for; use a smaller batch or model, or more ranks",
                      static_cast<double>(bytes) / (1 << 20)));
    }
    std::memset(pointer, 0, rounded);
    return pointer;
  }
  void deallocate(void* pointer) noexcept override { std::free(pointer); }

 private:
  std::size_t unit_;
};

}  // namespace

Allocator& plain_allocator() {
  static PlainAllocator allocator(kAlignmentBytes);  // never changes
  return allocator;
}

Allocator& page_allocator() {
  static PlainAllocator allocator(kPage);  // never changes
  return allocator;
}

void ask_for_huge_pages(void* memory, std::size_t bytes) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory), end = begin + bytes;
  const std::uintptr_t first = (begin + kHugePage - 1) / kHugePage * kHugePage, last = end / kHugePage * kHugePage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace unisono
