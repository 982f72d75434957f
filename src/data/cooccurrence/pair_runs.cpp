#include "cooccurrence/pair_runs.hpp"

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

}  // namespace unisono::data
