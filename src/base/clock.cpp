#include "unisono/base/clock.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace unisono {
namespace {

class SteadyClock final : public Clock {
 public:
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
};

/// Lets the calling thread sleep for a few microseconds; else Linux may add 50 to each sleep.
void sleep_precisely() {
  constexpr unsigned long kNanoseconds = 1000;
  static thread_local const bool once = prctl(PR_SET_TIMERSLACK, kNanoseconds) == 0;
  static_cast<void>(once);
}

}  // namespace

const Clock& steady_clock() {
  static const SteadyClock clock;
  return clock;
}

void Idle::sleep() {
  constexpr int kShortest = 5, kLongest = 200, kShare = 4;  // microseconds; of what was slept so far
  sleep_precisely();
  const int length = std::clamp(slept_ / kShare, kShortest, kLongest);
  slept_ = std::min(slept_ + length, kShare * kLongest);
  std::this_thread::sleep_for(std::chrono::microseconds(length));
}

}  // namespace unisono
