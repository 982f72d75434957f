#include "cooccurrence/pair_counter.hpp"

#include <cassert>

namespace unisono::data {

void PairCounter::add_now(const PairSum& sum) {
  if (table_.add(sum.place, sum.weight)) return;
  spill();
  [[maybe_unused]] const bool added = table_.add(sum.place, sum.weight);
  assert(added);
}

void PairCounter::spill() {
  runs_.add(table_.sort());
  table_.clear();
}

void PairCounter::finish() {
  for (PairSum& waiting : waiting_) {
    if (waiting.weight > 0) add_now(waiting);
    waiting.weight = 0;
  }
  runs_.add(table_.sort());
  table_.release();
}

void PairCounter::for_each(const std::function<void(WordPair pair, std::uint64_t weight)>& visit) {
  runs_.for_each(memory_bytes_, [&](const PairSum& sum) { visit(order_.pair_at(sum.place), sum.weight); });
}

}  // namespace unisono::data
