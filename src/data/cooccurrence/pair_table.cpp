#include "cooccurrence/pair_table.hpp"

#include <algorithm>

namespace unisono::data {
namespace {

constexpr std::uint64_t kLeastBuffer = 4 << 10, kLargestBuffer = 1 << 20;

/// A reader of one run, and its next sum.
struct Cursor {
  SpillReader reader;
  PairSum sum;
  bool next() { return reader.next(sum); }
};

/// Order of a heap with the smallest place on top.
bool is_later(const Cursor* a, const Cursor* b) { return a->sum.place > b->sum.place; }

constexpr std::size_t kFirstSlots = 1 << 14;
// Slots after the slot of the last place. At this load, runs of full slots are at most some hundred long; if one
// reaches the end, the table counts as full.
constexpr std::size_t kTail = 1 << 12;

/// The largest load: 0.7.
std::size_t most_used(std::size_t capacity) { return capacity / 10 * 7; }

}  // namespace

void PairRuns::add(std::span<const PairSum> sums) {
  const std::uint64_t begin = file_.bytes();
  constexpr std::size_t at_a_time = 1 << 14;
  for (; !sums.empty(); sums = sums.subspan(std::min(at_a_time, sums.size())))
    file_.append(sums.first(std::min(at_a_time, sums.size())));
  runs_.emplace_back(begin, file_.bytes());
}

void PairRuns::for_each(std::uint64_t memory_bytes, const std::function<void(const PairSum&)>& visit) {
  file_.flush();
  const std::uint64_t share = memory_bytes / std::max<std::size_t>(1, runs_.size());
  const auto buffer = static_cast<std::size_t>(std::clamp(share, kLeastBuffer, kLargestBuffer));
  std::vector<Cursor> cursors;
  for (const auto& [begin, end] : runs_) cursors.push_back({SpillReader(file_, begin, end, buffer), {}});
  std::vector<Cursor*> heap;
  for (Cursor& cursor : cursors) {
    if (cursor.next()) heap.push_back(&cursor);
  }
  std::make_heap(heap.begin(), heap.end(), is_later);
  PairSum sum;
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), is_later);
    Cursor& least = *heap.back();
    if (sum.weight > 0 && sum.place != least.sum.place) {
      visit(sum);
      sum.weight = 0;
    }
    sum = {least.sum.place, sum.weight + least.sum.weight};
    if (least.next()) {
      std::push_heap(heap.begin(), heap.end(), is_later);
    } else {
      heap.pop_back();
    }
  }
  if (sum.weight > 0) visit(sum);
}

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
