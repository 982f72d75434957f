#include "cpu/team_size.hpp"

#include <algorithm>
#include <atomic>

namespace unisono::kernels::cpu {
namespace {

std::atomic<bool> any_was_reduced{false};

}  // namespace

bool TeamSize::was_reduced() { return any_was_reduced.exchange(false, std::memory_order_relaxed); }

int TeamSize::members(int threads) {
  if (most_ < threads && clock_->seconds() >= until_) {
    most_ = kAll;
    window_ = {};
  }
  last_ = std::min(threads, most_);
  return last_;
}

void TeamSize::note(const LoopTimes& loop) {
  if (loop.own_share == 0) return;  // says nothing about how long the caller would have taken
  ++window_.loops;
  window_.seconds += loop.seconds;
  window_.alone += (loop.seconds - loop.waited) / loop.own_share;
  if (window_.loops >= kWindowLoops && window_.seconds >= kWindowSeconds) judge();
}

void TeamSize::judge() {
  if (window_.alone < kGain * window_.seconds) {
    if (most_ == kAll && ++failures_ >= kFailuresInARow) any_was_reduced.store(true, std::memory_order_relaxed);
    most_ = std::max(1, last_ / 2);
    until_ = clock_->seconds() + pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
  } else if (most_ == kAll) {
    pause_ = kFirstPause;
    failures_ = 0;
  }
  window_ = {};
}

}  // namespace unisono::kernels::cpu
