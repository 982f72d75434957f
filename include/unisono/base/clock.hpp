#pragma once

#include <ctime>

namespace unisono {

class Runtime;

/// A source of time: the machine's clock, or a simulated one in tests. May be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since an arbitrary moment, which differs between clocks; they never decrease.
  virtual double seconds() const = 0;
};

/// The machine's monotonic clock.
const Clock& steady_clock();

/// Seconds since construction or the last restart.
class Stopwatch {
 public:
  /// \param clock must outlive the stopwatch
  explicit Stopwatch(const Clock& clock = steady_clock()) : clock_(&clock), start_(clock.seconds()) {}

  double seconds() const { return clock_->seconds() - start_; }

  /// Returns the seconds so far and starts again from 0.
  double restart() {
    const double now = clock_->seconds();
    const double elapsed = now - start_;
    start_ = now;
    return elapsed;
  }

 private:
  const Clock* clock_;
  double start_;
};

/// Seconds of CPU time that the calling thread has used so far; time asleep or waiting for a core is not included.
inline double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Adds the seconds of its scope to a total.
class ScopedTimer {
 public:
  explicit ScopedTimer(double& total, const Clock& clock = steady_clock()) : total_(total), watch_(clock) {}
  ~ScopedTimer() { total_ += watch_.seconds(); }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  double& total_;
  Stopwatch watch_;
};

/// What a thread does between two looks at something that others will change: nothing for the first `spins` times,
/// since the change mostly comes within microseconds; then it sleeps, so that others get its core. A sleep is a quarter
/// of what its sleeps have taken so far, 5 µs at least and 400 at most. So it is late by a quarter of its wait, and
/// wakes up seldom where it waits for long. On virtual machines each time took 20 to 40 µs of its core, and a sleep of
/// 5 µs took 75 on a busy one: beside a thread whose waits were of 0.1 ms, another one took 2 times as long, and beside
/// waits of 25 ms 1.16 times.
///
/// It never calls sched_yield: beside other programs, that costs a thread its turns, since each call puts it behind
/// them by one more of Linux' time slices (6.6 and later). On a core shared with one busy program (6.18), a thread that
/// waits after every 2 ms of work got 49 % of the core if it slept for 20 µs, 12 % if it yielded 10 times, 1 % if 200
/// times.
class Idle {
 public:
  /// So many looks at an atomic take some tens of microseconds. For threads that meet every few microseconds: with
  /// fewer looks, each hiccup of one thread would put the others to sleep.
  static constexpr int kSpinsOfMeetings = 60000;

  explicit Idle(int spins) : spins_(spins) {}
  /// \param runtime passes the time; where it is simulated, nobody spins
  Idle(int spins, const Runtime& runtime);
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

  int spins_, slept_ = 0;             ///< slept_: microseconds, up to where sleeps grow no longer
  const Runtime* runtime_ = nullptr;  ///< null: the machine's
};

}  // namespace unisono
