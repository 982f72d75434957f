#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "thread_rounds.hpp"
#include "unisono/kernels/in_place.hpp"

namespace unisono::strategies {

/// Adds margins up over the ranks, in place; empty: there is one rank.
using RanksSum = std::function<void(std::span<float>)>;

/// Where the threads of a rank add up their shares of the margins of one mini-batch after the other. A thread is at
/// most one mini-batch ahead of another, so that two places for each suffice.
class PartialMargins {
 public:
  explicit PartialMargins(int threads) : shared_(threads), summed_(1), slots_(static_cast<std::size_t>(threads)) {}

  /// Where a thread writes its share of mini-batch i, counted over the whole run.
  MutableView own(int thread, std::int64_t i, Index count) { return first(slot(thread).shares, i, count); }

  /// Tells the others that the share is there, and waits for theirs. \return the sums over the threads, in their order,
  /// and over the ranks, valid until the thread's next call; none where another thread failed
  /// \param over_ranks called on thread 0 alone
  std::optional<View> sum(int thread, std::int64_t i, Index count, const RanksSum& over_ranks) {
    shared_.finish(thread, i + 1);
    if (over_ranks && thread > 0) {
      if (!summed_.wait(0, i + 1)) return {};
      return first(slot(0).total, i, count);
    }
    if (!shared_.wait_for_all(i + 1)) return {};
    const MutableView total = first(slot(thread).total, i, count);
    for (int other = 0; other < shared_.threads(); ++other) {
      const View share = first(slot(other).shares, i, count);
      for (std::size_t k = 0; k < total.size(); ++k) total[k] = other == 0 ? share[k] : total[k] + share[k];
    }
    if (over_ranks) {
      over_ranks(total);
      summed_.finish(0, i + 1);
    }
    return total;
  }

  /// The calling thread makes no more; the others must not wait for it.
  void fail() {
    shared_.fail();
    summed_.fail();
  }

 private:
  using Margins = std::array<float, kernels::kMostMiniBatch>;
  struct alignas(2 * kAlignmentBytes) Slot {
    std::array<Margins, 2> shares, total;
  };

  Slot& slot(int thread) { return slots_[static_cast<std::size_t>(thread)]; }
  static MutableView first(std::array<Margins, 2>& places, std::int64_t i, Index count) {
    return MutableView(places[static_cast<std::size_t>(i % 2)]).first(static_cast<std::size_t>(count));
  }

  ThreadRounds shared_, summed_;
  std::vector<Slot> slots_;
};

}  // namespace unisono::strategies
