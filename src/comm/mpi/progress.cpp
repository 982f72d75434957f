#include "progress.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace unisono::comm::mpi {

Progress::Entry::Entry(Progress& progress, Operation& operation) : progress_(progress), operation_(operation) {
  const std::lock_guard lock(progress_.mutex_);
  progress_.entries_.push_back(this);
  if (progress_.thread_.size() > 0) progress_.changed_.notify_one();
}

Progress::Entry::~Entry() {
  const std::lock_guard lock(progress_.mutex_);
  std::erase(progress_.entries_, this);
}

bool Progress::Entry::done() const {
  if (error_) std::rethrow_exception(error_);
  return done_;
}

Progress::~Progress() { stop_thread(); }

void Progress::stop_thread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_one();
  }
  thread_.join();
}

void Progress::poll() {
  bool any_done = false;
  for (Entry* entry : entries_) {  // in the order of their starts
    try {
      entry->done_ = entry->operation_.advance();
    } catch (...) {
      entry->error_ = std::current_exception();
      entry->done_ = true;
    }
    any_done |= entry->done_;
  }
  if (any_done) std::erase_if(entries_, [](const Entry* entry) { return entry->done_; });
}

void Progress::start_thread() {
  if (thread_.size() == 0) thread_.start([this] { run(); });
}

void Progress::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (entries_.empty()) {
      changed_.wait(lock);
      continue;
    }
    poll();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    lock.lock();
  }
}

}  // namespace unisono::comm::mpi
