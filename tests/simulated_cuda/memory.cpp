#include "simulated_cuda/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "simulated_cuda/block.hpp"
#include "simulated_cuda/sanitizers.hpp"

namespace simulated {
namespace {

constexpr std::size_t granule = 256;
constexpr std::size_t guard = 256;
constexpr std::size_t page = std::size_t{2} << 20;  // a huge one: opening and closing those costs little
constexpr std::size_t most_resting_bytes = std::size_t{64} << 20;
constexpr std::byte unwritten{0xFF};

std::size_t rounded_up(std::size_t value, std::size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

void fill(std::byte* begin, std::size_t bytes) { std::memset(begin, static_cast<int>(unwritten), bytes); }

}  // namespace

DeviceMemory::DeviceMemory(std::size_t capacity)
    : capacity_(capacity), range_(rounded_up(4 * capacity + 4 * most_resting_bytes, page)) {
  mapping_ = mmap(nullptr, range_ + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) fatal("no address range of %zu bytes for a device's memory", range_);
  base_ = reinterpret_cast<std::byte*>(rounded_up(reinterpret_cast<std::uintptr_t>(mapping_), page));
  madvise(base_, range_, MADV_HUGEPAGE);
  free_.emplace(0, range_);
}

DeviceMemory::~DeviceMemory() {
  unpoison(base_, touched_);
  munmap(mapping_, range_ + page);
}

std::byte* DeviceMemory::allocate(std::size_t bytes) {
  const std::size_t needed = rounded_up(bytes, granule);
  if (needed < bytes || needed > free_bytes()) return nullptr;
  const std::size_t reserved = needed + guard;
  const auto fits = [&](const auto& piece) { return piece.second >= reserved; };
  auto piece = std::find_if(free_.begin(), free_.end(), fits);
  if (piece == free_.end()) {
    while (!resting_.empty()) {
      give_back(resting_.front().first, resting_.front().second);
      resting_.pop_front();
    }
    resting_bytes_ = 0;
    piece = std::find_if(free_.begin(), free_.end(), fits);
    if (piece == free_.end()) return nullptr;
  }
  const Offset offset = piece->first;
  const std::size_t left = piece->second - reserved;
  free_.erase(piece);
  if (left != 0) free_.emplace(offset + reserved, left);
  live_.emplace(offset, Live{bytes, reserved});
  used_ += needed;
  const std::size_t end = rounded_up(offset + reserved, page);
  if (end > touched_) {
    mprotect(base_ + touched_, end - touched_, PROT_READ | PROT_WRITE);
    touched_ = end;
  }
  unpoison(base_ + offset, reserved);
  fill(base_ + offset, reserved);
  poison(base_ + offset + bytes, reserved - bytes);
  return base_ + offset;
}

bool DeviceMemory::free(void* pointer) {
  if (!inside(pointer)) return false;
  const auto found = live_.find(static_cast<Offset>(static_cast<std::byte*>(pointer) - base_));
  if (found == live_.end()) return false;
  const auto [offset, live] = *found;
  check_guard(offset, live);
  fill(base_ + offset, live.bytes);
  poison(base_ + offset, live.reserved);
  used_ -= live.reserved - guard;
  resting_.emplace_back(offset, live.reserved);
  resting_bytes_ += live.reserved;
  live_.erase(found);
  while (resting_bytes_ > most_resting_bytes && resting_.size() > 1) {
    give_back(resting_.front().first, resting_.front().second);
    resting_bytes_ -= resting_.front().second;
    resting_.pop_front();
  }
  return true;
}

void DeviceMemory::give_back(Offset offset, std::size_t bytes) {
  auto [piece, fresh] = free_.emplace(offset, bytes);
  if (const auto next = std::next(piece); next != free_.end() && offset + bytes == next->first) {
    piece->second += next->second;
    free_.erase(next);
  }
  if (piece == free_.begin()) return;
  const auto before = std::prev(piece);
  if (before->first + before->second != offset) return;
  before->second += piece->second;
  free_.erase(piece);
}

void DeviceMemory::check_guard(Offset offset, const Live& live) const {
  unpoison(base_ + offset + live.bytes, live.reserved - live.bytes);
  const std::byte* const begin = base_ + offset + live.bytes;
  const std::byte* const end = base_ + offset + live.reserved;
  // All bytes are as they should be if the first is, and each is as its successor.
  const bool intact = *begin == unwritten && std::memcmp(begin, begin + 1, live.reserved - live.bytes - 1) == 0;
  for (const std::byte* at = begin; !intact && at != end; ++at) {
    if (*at == unwritten) continue;
    fatal("%zu bytes of device memory at %p were written %zu bytes behind their end", live.bytes,
          static_cast<void*>(base_ + offset), static_cast<std::size_t>(at - begin));
  }
  poison(base_ + offset + live.bytes, live.reserved - live.bytes);
}

void DeviceMemory::check_guards() const {
  for (const auto& [offset, live] : live_) check_guard(offset, live);
}

void DeviceMemory::open() {
  if (open_) return;
  open_ = true;
  if (touched_ != 0) mprotect(base_, touched_, PROT_READ | PROT_WRITE);
}

void DeviceMemory::close() {
  if (!open_) return;
  open_ = false;
  if (touched_ != 0) mprotect(base_, touched_, PROT_NONE);
}

bool DeviceMemory::inside(const void* pointer) const {
  const auto* address = static_cast<const std::byte*>(pointer);
  return address >= base_ && address < base_ + range_;
}

std::optional<Allocation> DeviceMemory::find(const void* pointer) const {
  if (!inside(pointer)) return std::nullopt;
  const auto offset = static_cast<Offset>(static_cast<const std::byte*>(pointer) - base_);
  auto next = live_.upper_bound(offset);
  if (next == live_.begin()) return std::nullopt;
  const auto& [begin, live] = *std::prev(next);
  if (offset > begin + live.bytes) return std::nullopt;
  return Allocation{base_ + begin, live.bytes};
}

bool DeviceMemory::holds(const void* pointer, std::size_t bytes) const {
  const auto allocation = find(pointer);
  if (!allocation) return false;
  const auto before = static_cast<std::size_t>(static_cast<const std::byte*>(pointer) - allocation->begin);
  return bytes <= allocation->bytes - before;
}

std::size_t DeviceMemory::live_bytes() const {
  std::size_t sum = 0;
  for (const auto& [offset, live] : live_) sum += live.bytes;
  return sum;
}

}  // namespace simulated
