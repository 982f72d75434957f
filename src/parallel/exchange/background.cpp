#include "unisono/parallel/background.hpp"

#include <memory>
#include <utility>

#include "unisono/base/clock.hpp"

namespace unisono::parallel {

class Background::Job final : public comm::Request {
 public:
  Job(Background& background, std::int64_t number) : background_(background), number_(number) {}

  void wait() override {
    std::unique_lock lock(background_.mutex_);
    background_.changed_.wait(lock, [this] { return is_over(); });
    if (background_.failure_) std::rethrow_exception(background_.failure_);
  }
  bool test() override {
    const std::lock_guard lock(background_.mutex_);
    return is_over();
  }
  bool wait_unless(const std::function<bool()>& enough) override {
    for (Idle idle(0); !test(); idle.pause()) {
      if (enough()) return false;
    }
    return true;
  }

 private:
  bool is_over() const { return background_.done_ > number_ || background_.failure_; }

  Background& background_;
  std::int64_t number_;
};

Background::~Background() {
  const std::lock_guard lock(mutex_);
  jobs_.clear();
  ends_ = true;
  changed_.notify_all();
}

comm::RequestPtr Background::start(std::function<void()> job) {
  if (thread_.size() == 0) thread_.start([this] { run(); });
  const std::lock_guard lock(mutex_);
  jobs_.push_back(std::move(job));
  changed_.notify_all();
  return std::make_unique<Job>(*this, started_++);
}

void Background::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (ends_ || failure_) return;
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    std::exception_ptr failure;
    try {
      job();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace unisono::parallel
