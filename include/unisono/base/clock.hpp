#pragma once

#include <ctime>

namespace unisono {

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

}  // namespace unisono
