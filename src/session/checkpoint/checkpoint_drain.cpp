#include "checkpoint/checkpoint_drain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "unisono/base/errors.hpp"
#include "unisono/base/raw_file.hpp"

namespace unisono::session {
namespace {

void remove_file(const std::string& path) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

}  // namespace

CheckpointDrain::CheckpointDrain(CheckpointFolder folder, std::function<void(const std::string& text)> warn)
    : folder_(std::move(folder)), warn_(std::move(warn)) {}

CheckpointDrain::~CheckpointDrain() {
  stopped_ = true;
  thread_.join();
}

void CheckpointDrain::add(const LocalCheckpoint& written) {
  const std::lock_guard lock(mutex_);
  loss_.clear();
  waiting_.push_back(written);
  give_up_old_locked();
  start_locked();
}

void CheckpointDrain::take_over(const std::vector<LocalCheckpoint>& left) {
  const std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.end(), left.begin(), left.end());
  start_locked();
}

void CheckpointDrain::retry() {
  const std::lock_guard lock(mutex_);
  start_locked();
}

void CheckpointDrain::start_locked() {
  if (running_ || waiting_.empty()) return;
  thread_.join();  // it has ended, or is about to
  failure_.clear();
  running_ = true;
  try {
    thread_.start([this] { copy_all(); });
  } catch (const Error& error) {
    running_ = false;
    note_failure_locked(error.what());
  }
}

/// Whether a waiting one would be in the folder when all are copied, or the header of one that would be there says
/// that best.h5 is this one.
bool CheckpointDrain::is_needed_locked(std::size_t index) const {
  const LocalCheckpoint& one = waiting_[index];
  if (one.best && !waiting_[index + 1].best) return true;
  std::set<std::int64_t> newer;
  for (std::size_t i = index + 1; i < waiting_.size(); ++i) newer.insert(waiting_[i].step);
  return !newer.contains(one.step) && static_cast<std::int64_t>(newer.size()) < folder_.keep();
}

void CheckpointDrain::give_up_old_locked() {
  const std::size_t first = running_ ? 1 : 0;
  for (std::size_t i = waiting_.size() - 1; i-- > first;) {  // the newer ones first: see is_needed_locked
    if (is_needed_locked(i)) continue;
    remove_file(waiting_[i].path);
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    ++given_up_;
  }
}

void CheckpointDrain::copy_all() {
  std::unique_lock lock(mutex_);
  while (!waiting_.empty() && !stopped_ && failure_.empty()) {
    const LocalCheckpoint next = waiting_.front();
    lock.unlock();
    std::string failure, damage;
    try {
      copy(next);
    } catch (const DataError& error) {
      damage = error.what();
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    if (stopped_) break;
    if (!failure.empty()) {
      note_failure_locked(failure);
      continue;
    }
    waiting_.pop_front();
    warned_ = false;
    if (!damage.empty()) {
      note_loss_locked(next, damage);
    } else {
      ++copied_;
    }
  }
  running_ = false;
  idle_.notify_all();
}

void CheckpointDrain::copy(const LocalCheckpoint& one) {
  const std::string aside = folder_.of_step(one.step) + std::string(kUnfinished);
  try {
    if (!copy_sealed(one.path, aside, [this] { return !stopped_; })) return remove_file(aside);
    folder_.publish(aside, one.step, one.best);
  } catch (...) {
    remove_file(aside);
    throw;
  }
  remove_file(one.path);
}

void CheckpointDrain::note_failure_locked(const std::string& what) {
  const std::string place = fmt::format("{}; it is whole in {}", what, waiting_.front().path);
  failure_ = fmt::format("{}: {} and continue with --resume", place, advice_on(what));
  if (std::exchange(warned_, true) || !warn_) return;
  warn_(fmt::format("a checkpoint cannot be copied to the run folder: {}, and is copied after the next one is written",
                    place));
}

void CheckpointDrain::note_loss_locked(const LocalCheckpoint& one, const std::string& what) {
  remove_file(one.path);
  if (waiting_.empty()) loss_ = what + "; continue with --resume";
  if (warn_) warn_(fmt::format("{}; this checkpoint is left out", what));
}

bool CheckpointDrain::is_busy() const {
  const std::lock_guard lock(mutex_);
  return running_;
}

void CheckpointDrain::wait_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex_);
  idle_.wait_for(lock, time, [this] { return !running_; });
}

std::string CheckpointDrain::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::string CheckpointDrain::take_loss() {
  const std::lock_guard lock(mutex_);
  return std::exchange(loss_, {});
}

std::uint64_t CheckpointDrain::waiting_bytes() const {
  const std::lock_guard lock(mutex_);
  std::uint64_t bytes = 0;
  for (const LocalCheckpoint& one : waiting_) {
    std::error_code error;
    const auto size = std::filesystem::file_size(one.path, error);
    if (!error) bytes += size;
  }
  return bytes;
}

std::int64_t CheckpointDrain::copied() const {
  const std::lock_guard lock(mutex_);
  return copied_;
}

std::int64_t CheckpointDrain::given_up() const {
  const std::lock_guard lock(mutex_);
  return given_up_;
}

}  // namespace unisono::session
