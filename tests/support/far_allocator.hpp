#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

#include "unisono/tensor/allocator.hpp"

namespace unisono {

/// Memory that stands for a device's: numbers lie in it negated, so that who reads or writes it but by `copy` is found
/// out.
class FarAllocator final : public Allocator {
 public:
  void* allocate(std::size_t bytes) override {
    void* const pointer = plain_allocator().allocate(bytes);
    sizes_[static_cast<const float*>(pointer)] = bytes / sizeof(float);
    return pointer;
  }
  void deallocate(void* pointer) noexcept override {
    sizes_.erase(static_cast<const float*>(pointer));
    plain_allocator().deallocate(pointer);
  }
  void copy(View from, MutableView to) override {
    const float sign = owns(from.data()) == owns(to.data()) ? 1 : -1;
    std::ranges::transform(from, to.begin(), [sign](float value) { return sign * value; });
  }
  bool is_plain() const override { return false; }

 private:
  bool owns(const float* place) const {
    const auto behind = sizes_.upper_bound(place);
    if (behind == sizes_.begin()) return false;
    const auto& [first, size] = *std::prev(behind);
    return place < first + size;
  }

  std::map<const float*, std::size_t> sizes_;  ///< floats of each piece, by where it begins
};

}  // namespace unisono
