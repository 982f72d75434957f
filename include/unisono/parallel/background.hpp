#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string>

#include "unisono/base/threads.hpp"
#include "unisono/comm/communicator.hpp"

namespace unisono::parallel {

/// Runs jobs on a thread of its own, one after the other, in the order in which they were started.
class Background {
 public:
  /// \param purpose what the thread is for; part of the error message where the system starts no more
  explicit Background(std::string purpose) : thread_(std::move(purpose)) {}
  /// Drops the jobs that have not begun. Whoever owns this must have told the one that runs to end.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// \return waits for the job, and rethrows what it or one before it has thrown; must not outlive this object
  comm::RequestPtr start(std::function<void()> job);

 private:
  class Job;
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::int64_t started_ = 0, done_ = 0;
  std::exception_ptr failure_;  ///< after which no job is run
  bool ends_ = false;
  Threads thread_;
};

}  // namespace unisono::parallel
