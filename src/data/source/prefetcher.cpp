#include "source/prefetcher.hpp"

#include "unisono/base/clock.hpp"

namespace unisono::data {

Prefetcher::Prefetcher(std::vector<PreparedBatch> buffers, Prepare prepare)
    : buffers_(std::move(buffers)), prepare_(std::move(prepare)) {
  thread_.start([this] { run(); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
}

void Prefetcher::run() {
  for (;;) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || prepared_ - kept_ < buffers_.size(); });
    if (stopped_) return;
    PreparedBatch& buffer = buffers_[prepared_ % buffers_.size()];
    lock.unlock();

    bool more = false;
    std::exception_ptr error;
    try {
      more = prepare_(buffer);
    } catch (...) {
      error = std::current_exception();
    }

    lock.lock();
    error_ = error;
    ended_ = !more;
    if (more) ++prepared_;
    lock.unlock();
    changed_.notify_all();
    if (!more) return;
  }
}

const Batch* Prefetcher::next() {
  const ScopedTimer timer(wait_seconds_);
  std::unique_lock lock(mutex_);
  kept_ = taken_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return prepared_ > taken_ || ended_; });
  if (prepared_ > taken_) return &buffers_[taken_++ % buffers_.size()].batch;
  if (error_) std::rethrow_exception(error_);
  return nullptr;
}

}  // namespace unisono::data
