#include "unisono/tensor/allocator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "unisono/base/errors.hpp"

namespace unisono {
namespace {

class PlainAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    const std::size_t lines = bytes / kAlignmentBytes + (bytes % kAlignmentBytes == 0 ? 0 : 1);
    const std::size_t rounded = std::max<std::size_t>(lines, 1) * kAlignmentBytes;
    const bool overflows = rounded < bytes;
    void* pointer = overflows ? nullptr : std::aligned_alloc(kAlignmentBytes, rounded);
    if (pointer == nullptr) {
      throw DeviceError(
          fmt::format("out of memory: {:.1f} MiB were asked for; use a smaller batch or model, or more ranks",
                      static_cast<double>(bytes) / (1 << 20)));
    }
    std::memset(pointer, 0, rounded);
    return pointer;
  }
  void deallocate(void* pointer) noexcept override { std::free(pointer); }
};

}  // namespace

Allocator& plain_allocator() {
  static PlainAllocator allocator;  // stateless
  return allocator;
}

}  // namespace unisono
