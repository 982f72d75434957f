#pragma once

namespace unisono {

/// What a thread does between two looks at something that others will change: nothing for the first `spins` times,
/// since they mostly do so within microseconds; then it sleeps, for 5 µs at first and at most 50, so that others get
/// its core.
///
/// It never calls sched_yield: beside other programs, that costs a thread its turns, since each call puts it behind
/// them by one more of Linux' time slices (6.6 and later). On a core shared with one busy program (6.18), a thread that
/// waits after every 2 ms of work got 49 % of the core if it slept for 20 µs, 12 % if it yielded 10 times, 1 % if 200
/// times.
class Idle {
 public:
  /// Looks at an atomic for some tens of microseconds, for threads that meet every few of them: after fewer, each
  /// hiccup of one thread would put the others to sleep.
  static constexpr int kSpinsOfMeetings = 60000;

  explicit Idle(int spins) : spins_(spins) {}
  bool spins() const { return spins_ > 0; }
  void pause() {
    if (spins_ > 0) {
      --spins_;
    } else {
      sleep();
    }
  }

 private:
  void sleep();

  int spins_, sleeps_ = 0;
};

}  // namespace unisono
