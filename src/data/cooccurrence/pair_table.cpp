#include "cooccurrence/pair_table.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

constexpr std::size_t kFirstSlots = 1 << 14;
// Slots after the slot of the last place. At this load, runs of full slots are at most some hundred long; if one
// reaches the end, the table counts as full.
constexpr std::size_t kTail = 1 << 12;

/// The largest load: 0.7.
std::size_t most_used(std::size_t capacity) { return capacity / 10 * 7; }

}  // namespace

PairTable::PairTable(std::uint64_t memory_bytes) : most_slots_(memory_bytes / sizeof(PairSum) - 2 * kTail) {
  resize(std::min(kFirstSlots, most_slots_));
}

void PairTable::resize(std::size_t capacity) {
  capacity_ = capacity;
  used_ = 0;
  slots_ = std::vector<PairSum>(capacity + kTail);
}

bool PairTable::add(std::uint64_t place, std::uint64_t weight) {
  std::size_t at = slot_of(place);
  for (; slots_[at].weight != 0; ++at) {  // the last slot is never used
    if (slots_[at].place != place) continue;
    slots_[at].weight += weight;
    return true;
  }
  if (used_ == most_used(capacity_) || at + 1 == slots_.size()) return grow() && add(place, weight);
  slots_[at] = {place, weight};
  ++used_;
  return true;
}

/// Grows to twice the slots, or to as many as fit into memory next to the old ones. Returns false if that is too
/// little.
bool PairTable::grow() {
  const std::size_t larger = std::min(2 * capacity_, most_slots_ - capacity_);
  if (larger < capacity_ / 4 * 5) return false;
  const std::vector<PairSum> old = std::move(slots_);
  resize(larger);
  for (const PairSum& sum : old) {
    if (sum.weight != 0) add(sum.place, sum.weight);
  }
  return true;
}

std::span<const PairSum> PairTable::sort() {
  const auto end = std::remove_if(slots_.begin(), slots_.end(), [](const PairSum& sum) { return sum.weight == 0; });
  // Insertion sort, because each sum is at most a few slots from its sorted position.
  for (auto at = slots_.begin(); at != end; ++at) {
    const PairSum sum = *at;
    auto hole = at;
    for (; hole != slots_.begin() && (hole - 1)->place > sum.place; --hole) *hole = *(hole - 1);
    *hole = sum;
  }
  return {slots_.begin(), end};
}

void PairTable::clear() {
  std::fill(slots_.begin(), slots_.end(), PairSum{});
  used_ = 0;
}

}  // namespace unisono::data
