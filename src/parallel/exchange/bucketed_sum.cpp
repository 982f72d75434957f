#include <memory>
#include <utility>

#include "unisono/base/clock.hpp"
#include "unisono/comm/buckets.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/step_terms.hpp"
#include "unisono/tensor/layout.hpp"

namespace unisono::parallel {
namespace {

class BucketedSum final : public GradientExchange {
 public:
  BucketedSum(MutableView gradient, comm::GradientBuckets buckets)
      : gradient_(gradient), buckets_(std::move(buckets)) {}
  GradientTarget target(const MicroBatchPlace& place) override {
    return {gradient_, place.first ? kernels::Write::overwrite : kernels::Write::add,
            place.last ? GradientReady(buckets_) : GradientReady()};
  }
  void finish() override { buckets_.finish(); }
  BlockedSeconds blocked() const override {
    return {.communication = buckets_.exposed_seconds(), .stragglers = buckets_.straggler_wait_seconds()};
  }

 private:
  MutableView gradient_;
  comm::GradientBuckets buckets_;
};

}  // namespace

Index bucket_bytes_of(const StepTerms& run) {
  return run.bucket_bytes > 0 ? run.bucket_bytes : run.communicator.bucket_bytes();
}

std::unique_ptr<GradientExchange> make_bucketed_sum(comm::Communicator& communicator, MutableView gradient,
                                                    Index bucket_bytes, const Clock& clock) {
  return std::make_unique<BucketedSum>(gradient, comm::GradientBuckets(communicator, gradient, bucket_bytes, clock));
}

std::unique_ptr<GradientExchange> make_scattered_sum(comm::Communicator& communicator, MutableView gradient,
                                                     Index bucket_bytes, const Clock& clock) {
  const auto start = [&communicator, gradient](Index first, Index last) {
    return communicator.start_reduce_scatter_sum(part(gradient, {first, last}));
  };
  return std::make_unique<BucketedSum>(gradient,
                                       comm::GradientBuckets(std::ssize(gradient), bucket_bytes, start, clock));
}

/// Makes a call and adds to the run's seconds how long it was blocked by messages and by stragglers.
template <typename Call>
TimedExchange::Elapsed TimedExchange::count(Call call) {
  const BlockedSeconds before = exchange_->blocked();
  const double device_before = backend_.waited_seconds();
  call();
  const BlockedSeconds after = exchange_->blocked();
  Elapsed elapsed;
  elapsed.device = backend_.waited_seconds() - device_before;
  elapsed.blocked.communication = after.communication - before.communication - elapsed.device;
  elapsed.blocked.stragglers = after.stragglers - before.stragglers;
  seconds_.exposed_communication += elapsed.blocked.communication;
  seconds_.straggler_wait += elapsed.blocked.stragglers;
  return elapsed;
}

GradientTarget TimedExchange::target(const MicroBatchPlace& place) {
  GradientTarget target = exchange_->target(place);
  told_ = target.ready;
  if (told_) target.ready = *this;
  return target;
}

void TimedExchange::ready(Index first, Index last) {
  const Elapsed elapsed = count([&] { told_(first, last); });
  seconds_.compute -= elapsed.blocked.communication + elapsed.blocked.stragglers;
}

void TimedExchange::finish() {
  const Elapsed elapsed = count([&] { exchange_->finish(); });
  seconds_.compute += elapsed.device;
}

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
