#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "thread_rounds.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::strategies {

/// Threads that make steps of some microseconds together, and stay awake from one to the next.
class StepTeam {
 public:
  /// \param work a thread's part of a step; false where another thread failed
  /// \param fail called where a thread ends: what others wait for in `work` will not come
  StepTeam(int threads, std::string purpose, std::function<bool(int thread)> work, std::function<void()> fail)
      : team_(threads, std::move(purpose)),
        begun_(1),
        ended_(threads),
        work_(std::move(work)),
        fail_(std::move(fail)) {}

  /// Calls lead(), in which the calling thread, number 0, calls step() as often as it likes. \throws what a thread
  /// threw
  void run(const std::function<void()>& lead) {
    team_.run([&](int number) {
      const auto end = [&] {
        begun_.fail();
        ended_.fail();
        fail_();
      };
      try {
        number == 0 ? lead() : follow(number);
      } catch (...) {
        end();
        throw;
      }
      if (number == 0) end();
    });
  }

  /// Calls work(t) on all threads. \return false where a thread failed: lead() must return
  bool step() {
    begun_.finish(0, ++made_);
    if (!work_(0)) return false;
    ended_.finish(0, made_);
    return ended_.wait_for_all(made_);
  }

 private:
  void follow(int number) {
    for (std::int64_t round = 1; begun_.wait(0, round); ++round) {
      if (!work_(number)) return;
      ended_.finish(number, round);
    }
  }

  ThreadTeam team_;
  ThreadRounds begun_, ended_;  ///< steps: by thread 0, and by each thread
  std::function<bool(int)> work_;
  std::function<void()> fail_;
  std::int64_t made_ = 0;  ///< steps
};

}  // namespace unisono::strategies
