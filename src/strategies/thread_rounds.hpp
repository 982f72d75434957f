#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::strategies {

/// Threads that wait for each other at the ends of rounds of a few microseconds. They spin for a moment, and then sleep
/// and look from time to time: were they woken instead, they would often be put on the core of the thread that woke
/// them, and stay there for milliseconds. What a thread wrote before it finished a round is seen by those that waited
/// for it.
class ThreadRounds {
 public:
  explicit ThreadRounds(int threads) : made_(static_cast<std::size_t>(threads)) {}

  int threads() const { return static_cast<int>(made_.size()); }
  /// \param rounds that the thread has made, over all its life
  void finish(int thread, std::int64_t rounds) {
    made_[static_cast<std::size_t>(thread)].count.store(rounds, std::memory_order_release);
  }
  /// Waits until a thread has made so many. \return false where a thread failed, which then finishes no more
  bool wait(int thread, std::int64_t rounds) const {
    const std::atomic<std::int64_t>& made = made_[static_cast<std::size_t>(thread)].count;
    for (Idle idle(Idle::kSpinsOfMeetings); made.load(std::memory_order_acquire) < rounds; idle.pause()) {
      if (failed_.load(std::memory_order_relaxed)) return false;
    }
    return true;
  }
  /// The same for all threads.
  bool wait_for_all(std::int64_t rounds) const {
    for (int thread = 0; thread < threads(); ++thread) {
      if (!wait(thread, rounds)) return false;
    }
    return true;
  }
  void fail() { failed_.store(true, std::memory_order_relaxed); }

 private:
  struct alignas(2 * kAlignmentBytes) Count {
    std::atomic<std::int64_t> count{0};
  };
  std::vector<Count> made_;
  std::atomic<bool> failed_{false};
};

}  // namespace unisono::strategies
