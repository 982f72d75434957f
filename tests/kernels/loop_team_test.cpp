#include "cpu/loop_team.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <vector>

namespace unisono::kernels::cpu {
namespace {

/// Counts how often each index of a loop was worked on, with which thread's number.
class Visits {
 public:
  Visits(Index count, int threads) : counts_(static_cast<std::size_t>(count)), threads_(threads) {}

  void add(Index first, Index last, int thread) {
    if (thread < 0 || thread >= threads_) known_ = false;
    for (Index i = first; i < last; ++i) counts_[static_cast<std::size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  }
  bool are(int times) const {
    return known_ && std::all_of(counts_.begin(), counts_.end(), [&](const auto& count) { return count == times; });
  }

 private:
  std::vector<std::atomic<int>> counts_;
  int threads_;
  std::atomic<bool> known_ = true;
};

class SetClock final : public Clock {
 public:
  double seconds() const override { return now; }
  double now = 0;
};

}  // namespace

TEST_CASE("parallel ranges cover every index once, by threads of known numbers", "[parallel]") {
  for (const int threads : {1, 2, 3, 7}) {
    for (const Index count : {0, 1, 2, 5, 100}) {
      Visits visits(count, threads);
      parallel_ranges(threads, count, [&](Index first, Index last, int thread) { visits.add(first, last, thread); });
      CHECK(visits.are(1));
    }
  }
}

TEST_CASE("loops that follow each other at once are each done once, with helpers that come late", "[parallel]") {
  LoopTeam team;
  constexpr int kLoops = 20'000;
  std::atomic<int> wrong = 0;
  std::array<std::atomic<Index>, 16> sums{};  // a late helper with the context of another loop changes another sum
  for (int loop = 0; loop < kLoops; ++loop) {
    const Index count = 1 + loop % 13;
    const int threads = 2 + loop % 3;
    std::atomic<Index>& sum = sums[static_cast<std::size_t>(loop) % sums.size()];
    sum = 0;
    const auto add = [&](Index first, Index last, int thread) {
      if (thread >= threads) ++wrong;
      for (Index i = first; i < last; ++i) sum += i + loop;
    };
    team.run(threads, count, LoopTeam::Work::of(add));
    if (sum != count * (count - 1) / 2 + count * loop) ++wrong;
    for (auto& other : sums) {
      if (&other != &sum && other != 0) ++wrong;
    }
    sum = 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("each thread that calls has helpers of its own", "[parallel]") {
  std::atomic<int> wrong = 0;
  Threads callers("a test", 3);
  for (int caller = 0; caller < 3; ++caller) {
    callers.start([&wrong] {
      for (int loop = 0; loop < 500; ++loop) {
        Visits visits(50, 2);
        parallel_ranges(2, 50, [&](Index first, Index last, int thread) { visits.add(first, last, thread); });
        if (!visits.are(1)) ++wrong;
      }
    });
  }
  callers.join();
  CHECK(wrong == 0);
}

TEST_CASE("a helper that has no core holds up no more than what it has taken", "[parallel]") {
  LoopTeam team;
  std::atomic<Index> left = 8;  // 2 parts of 4 chunks, one index each
  std::atomic<bool> helper_has_begun = false;
  const auto work = [&](Index first, Index last, int thread) {
    if (thread == 0) {
      helper_has_begun.wait(false);
      left -= last - first;
      left.notify_all();
      return;
    }
    if (helper_has_begun.exchange(true)) {
      left -= last - first;
      return;
    }
    helper_has_begun.notify_all();
    // As if it had lost its core: it goes on only when the caller has done all else.
    for (Index others = left; others > 1; others = left) left.wait(others);
    --left;
  };
  team.run(2, 8, LoopTeam::Work::of(work));
  CHECK(left == 0);
}

TEST_CASE("fewer threads take part where waiting for them takes longer than their work", "[parallel]") {
  SetClock clock;
  TeamSize size(clock);
  const auto window = [&](const LoopTimes& loop) {
    for (int i = 0; i < 32; ++i) {
      size.members(4);
      clock.now += loop.seconds;
      size.note(loop);
    }
  };
  const LoopTimes good{.seconds = 0.002, .waited = 0.0002, .own_share = 0.25};
  const LoopTimes bad{.seconds = 0.002, .waited = 0.0017, .own_share = 0.25};  // alone 0.0012

  TeamSize::was_reduced();
  window(good);
  CHECK(size.members(4) == 4);
  for (int i = 0; i < 16; ++i) size.note(bad);
  CHECK(size.members(4) == 2);
  CHECK(size.members(2) == 2);
  for (int i = 0; i < 16; ++i) size.note({.seconds = 0.002, .waited = 0.0015, .own_share = 0.5});
  CHECK(size.members(4) == 1);

  clock.now += 0.19;  // a pause of 0.2 s, since it was the second one in a row
  CHECK(size.members(4) == 1);
  clock.now += 0.02;
  CHECK(size.members(4) == 4);
  for (int i = 0; i < 16; ++i) size.note(bad);
  CHECK_FALSE(TeamSize::was_reduced());
  clock.now += 0.41;
  CHECK(size.members(4) == 4);
  for (int i = 0; i < 16; ++i) size.note(bad);
  CHECK(TeamSize::was_reduced());  // the third time in a row
  CHECK_FALSE(TeamSize::was_reduced());

  clock.now += 0.81;
  CHECK(size.members(4) == 4);
  window(good);
  for (int i = 0; i < 16; ++i) size.note(bad);
  CHECK(size.members(4) == 2);
  clock.now += 0.11;  // the pauses have begun anew
  CHECK(size.members(4) == 4);
}

}  // namespace unisono::kernels::cpu
