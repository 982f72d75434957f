#include <utility>

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
    return {gradient_, place.first ? kernels::Write::overwrite : kernels::Write::add, place.last};
  }
  void ready(const MicroBatchPlace&, Index first, Index last) override { buckets_.ready(first, last); }
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

void TimedExchange::ready(const MicroBatchPlace& place, Index first, Index last) {
  const Elapsed elapsed = count([&] { exchange_->ready(place, first, last); });
  seconds_.compute -= elapsed.blocked.communication + elapsed.blocked.stragglers;
}

void TimedExchange::finish() {
  const Elapsed elapsed = count([&] { exchange_->finish(); });
  seconds_.compute += elapsed.device;
}

}  // namespace unisono::parallel
