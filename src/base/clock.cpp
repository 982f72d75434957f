#include "unisono/base/clock.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "unisono/base/runtime.hpp"

namespace unisono {
namespace {

/// Lets the calling thread sleep for a few microseconds; else Linux may add 50 to each sleep.
void sleep_precisely() {
  constexpr unsigned long kNanoseconds = 1000;
  static thread_local const bool once = prctl(PR_SET_TIMERSLACK, kNanoseconds) == 0;
  static_cast<void>(once);
}

}  // namespace

Idle::Idle(int spins, const Runtime& runtime) : spins_(runtime.is_virtual() ? 0 : spins), runtime_(&runtime) {}

void Idle::sleep() {
  constexpr int kShortest = 5, kLongest = 400, kShare = 4;  // microseconds; of what was slept so far
  const int length = std::clamp(slept_ / kShare, kShortest, kLongest);
  double slept = length;
  if (runtime_ != nullptr && runtime_->is_virtual()) {
    runtime_->sleep(1e-6 * length);
  } else {
    sleep_precisely();
    const Stopwatch watch;
    std::this_thread::sleep_for(std::chrono::microseconds(length));
    slept = 1e6 * watch.seconds();
  }
  slept_ = static_cast<int>(std::min(slept_ + slept, 1.0 * kShare * kLongest));
}

}  // namespace unisono
