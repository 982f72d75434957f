#include "unisono/models/row_locks.hpp"

#include <algorithm>

#include "unisono/base/idle.hpp"

namespace unisono::models {
namespace {

constexpr int kSpins = 64;  // before the thread sleeps: the owner may need its core

}  // namespace

RowLocks::RowLocks(int stripes)
    : stripes_(static_cast<std::uint32_t>(stripes)), locks_(std::make_unique<Lock[]>(stripes_)) {}

std::uint32_t RowLocks::stripe_of(std::size_t space, Index row) const {
  // Rows of equal numbers in different spaces, as a word's two vectors are, get different stripes.
  return static_cast<std::uint32_t>((static_cast<std::uint64_t>(row) + 0x9E3779B9U * space) % stripes_);
}

void RowLocks::take(std::uint32_t stripe) {
  std::atomic<bool>& taken = locks_[stripe].taken;
  for (Idle idle(kSpins); taken.exchange(true, std::memory_order_acquire);) idle.pause();
}

RowLocks::Guard RowLocks::lock(Set& rows) {
  auto& stripes = rows.stripes_;
  std::sort(stripes.begin(), stripes.end());
  stripes.erase(std::unique(stripes.begin(), stripes.end()), stripes.end());
  for (const std::uint32_t stripe : stripes) take(stripe);
  return {*this, stripes};
}

RowLocks::Guard::~Guard() {
  if (locks_ == nullptr) return;
  for (const std::uint32_t stripe : stripes_) locks_->locks_[stripe].taken.store(false, std::memory_order_release);
}

}  // namespace unisono::models
