#include "cuda/pool.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "unisono/base/errors.hpp"

namespace unisono::kernels::cuda {
namespace {

constexpr std::size_t kSmall = 512, kLarge = std::size_t{2} << 20;

double mebibytes(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

Pool::~Pool() {
  release_kept();
  for (const auto& [pointer, size] : taken_) raw_.release(pointer);
}

std::size_t Pool::rounded(std::size_t bytes) {
  const std::size_t unit = bytes < kLarge ? kSmall : kLarge;
  return (std::max<std::size_t>(bytes, 1) + unit - 1) / unit * unit;
}

void* Pool::allocate(std::size_t bytes) {
  std::size_t size = rounded(bytes);
  const bool overflows = size < bytes;
  void* pointer = overflows ? nullptr : take_kept(size);
  if (pointer == nullptr && !overflows) {
    pointer = raw_.allocate(size);
    if (pointer == nullptr) {  // memory that is kept may be in the way
      release_kept();
      pointer = raw_.allocate(size);
    }
  }
  if (pointer == nullptr) {
    throw DeviceError(
        fmt::format("out of GPU memory: {:.1f} MiB were asked for, {:.1f} MiB are free, this run has {:.1f} MiB{}; use "
                    "a smaller batch (train.batch_size, or train.accumulate for parts of it) or model, or more GPUs",
                    mebibytes(bytes), mebibytes(raw_.free_bytes()), mebibytes(used_bytes_), remark_));
  }
  taken_.emplace(pointer, size);
  used_bytes_ += size;
  return pointer;
}

/// Takes kept memory of this size, or up to an eighth larger; null where there is none. \param size becomes that of the
/// memory
void* Pool::take_kept(std::size_t& size) {
  const auto found = kept_.lower_bound(size);
  if (found == kept_.end() || found->first > size + size / 8) return nullptr;
  void* const pointer = found->second;
  size = found->first;
  kept_bytes_ -= size;
  kept_.erase(found);
  return pointer;
}

void Pool::deallocate(void* pointer) noexcept {
  const auto found = taken_.find(pointer);
  if (found == taken_.end()) return;
  kept_.emplace(found->second, pointer);
  kept_bytes_ += found->second;
  used_bytes_ -= found->second;
  taken_.erase(found);
}

void Pool::release_kept() {
  for (const auto& [size, pointer] : kept_) raw_.release(pointer);
  kept_.clear();
  kept_bytes_ = 0;
}

}  // namespace unisono::kernels::cuda
