#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "source/prepared_batch.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::data {

/// A thread that prepares the next few batches while the last one is used. Its buffers are reused.
class Prefetcher {
 public:
  /// Fills a batch; false where there is none any more. Runs in the thread.
  using Prepare = std::function<bool(PreparedBatch&)>;

  /// \param buffers as many as may be prepared or in use at a time; at least 2
  Prefetcher(std::vector<PreparedBatch> buffers, Prepare prepare);
  /// Ends the thread. `prepare` must return soon.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, valid until the next call; null at the end. What `prepare` threw is rethrown at its place.
  const Batch* next();
  double wait_seconds() const { return wait_seconds_; }

 private:
  void run();

  std::vector<PreparedBatch> buffers_;
  Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Batch i lies in buffer i mod buffers. Batches taken_ … prepared_ − 1 wait for the user, who may still hold the one
  // before: none before kept_ is needed any more.
  std::size_t prepared_ = 0, taken_ = 0, kept_ = 0;
  bool stopped_ = false, ended_ = false;
  std::exception_ptr error_;
  double wait_seconds_ = 0;
  Threads thread_{"preparing batches ahead"};
};

}  // namespace unisono::data
