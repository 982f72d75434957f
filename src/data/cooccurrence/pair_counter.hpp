#pragma once

#include <array>
#include <string>

#include "cooccurrence/pair_order.hpp"
#include "cooccurrence/pair_runs.hpp"
#include "cooccurrence/pair_table.hpp"

namespace unisono::data {

/// Adds up weights of pairs in memory, and sets a sorted run aside each time when memory is full.
class PairCounter {
 public:
  PairCounter(const std::string& beside, std::uint64_t memory_bytes, std::uint64_t seed)
      : order_(seed), memory_bytes_(memory_bytes), table_(memory_bytes), runs_(beside) {}

  void add(WordPair pair, std::uint64_t weight) {
    // What is added waits until some others came: by then its slot has come from memory.
    PairSum& waiting = waiting_[next_++ % kWaiting];
    if (waiting.weight > 0) add_now(waiting);
    waiting = {order_.place_of(pair), weight};
    table_.prefetch(waiting.place);
  }
  /// Sets the rest aside, and gives the table's memory back.
  void finish();

  /// The pairs in their random order. \pre finish() was called
  void for_each(const std::function<void(WordPair pair, std::uint64_t weight)>& visit);
  std::int64_t runs() const { return runs_.size(); }

 private:
  static constexpr std::size_t kWaiting = 32;

  void add_now(const PairSum& sum);
  void spill();

  PairOrder order_;
  std::uint64_t memory_bytes_;
  PairTable table_;
  PairRuns runs_;
  std::array<PairSum, kWaiting> waiting_{};
  std::size_t next_ = 0;
};

}  // namespace unisono::data
