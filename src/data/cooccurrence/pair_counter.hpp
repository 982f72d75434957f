#pragma once

#include <array>
#include <string>

#include "cooccurrence/pair_order.hpp"
#include "cooccurrence/pair_runs.hpp"
#include "cooccurrence/pair_table.hpp"

namespace unisono::data {

/// Adds up the weights of word pairs in a table in memory; whenever it is full, its sums are written to disk as a
/// sorted run.
class PairCounter {
 public:
  /// \param beside path of the output: runs are stored in a file next to it
  PairCounter(const std::string& beside, std::uint64_t memory_bytes, std::uint64_t seed)
      : order_(seed), memory_bytes_(memory_bytes), table_(memory_bytes), runs_(beside) {}

  void add(WordPair pair, std::uint64_t weight) {
    // A pair is added to the table kWaiting calls later, when the prefetch of its slot has finished.
    PairSum& waiting = waiting_[next_++ % kWaiting];
    if (waiting.weight > 0) add_now(waiting);
    waiting = {order_.place_of(pair), weight};
    table_.prefetch(waiting.place);
  }
  /// Writes the rest as a last run, and frees the table's memory.
  void finish();

  /// Visits all pairs with their total weights, in the random order of PairOrder. \pre finish() was called
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
