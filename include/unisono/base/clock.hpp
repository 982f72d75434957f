#pragma once

#include <ctime>

namespace unisono {

/// Where time comes from: the machine, or a test that simulates it. Any thread may ask.
class Clock {
 public:
  virtual ~Clock() = default;
  /// Seconds since some moment of the clock's own; they never decrease.
  virtual double seconds() const = 0;
};

/// The machine's monotonic clock.
const Clock& steady_clock();

/// Seconds since construction or the last restart.
class Stopwatch {
 public:
  /// \param clock outlives the stopwatch
  explicit Stopwatch(const Clock& clock = steady_clock()) : clock_(&clock), start_(clock.seconds()) {}

  double seconds() const { return clock_->seconds() - start_; }

  /// The seconds so far, and begins anew.
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

/// What the calling thread has computed so far, without what it slept or waited for a core.
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

}  // namespace unisono
