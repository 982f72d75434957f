#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "source/prepared_batch.hpp"
#include "unisono/base/threads.hpp"

namespace unisono::data {

/// A thread that prepares the next few batches while one is in use. Its buffers are reused.
class Prefetcher {
 public:
  /// Fills a batch, in the thread; returns false at the end.
  using Prepare = std::function<bool(PreparedBatch&)>;

  /// \param buffers one for each batch that is prepared or in use at a time; at least 2
  Prefetcher(std::vector<PreparedBatch> buffers, Prepare prepare);
  /// Ends the thread. `prepare` must return soon.
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  /// The next batch, valid until the next call; null at the end. Rethrows an exception of `prepare` in place of its
  /// batch.
  const Batch* next();
  double wait_seconds() const { return wait_seconds_; }

 private:
  void run();

  std::vector<PreparedBatch> buffers_;
  Prepare prepare_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Batch i is in buffer i mod (number of buffers). Batches taken_ … prepared_ − 1 are ready for the caller of `next`,
  // who may still use the previous one. Buffers of batches before kept_ may be overwritten.
  std::size_t prepared_ = 0, taken_ = 0, kept_ = 0;
  bool stopped_ = false, ended_ = false;
  std::exception_ptr error_;
  double wait_seconds_ = 0;
  Threads thread_{"preparing batches ahead"};
};

}  // namespace unisono::data
