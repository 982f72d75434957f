#include "exchange/exchange.hpp"
#include "unisono/comm/buckets.hpp"

namespace unisono::strategies {
namespace {

class BucketedSum final : public GradientExchange {
 public:
  BucketedSum(comm::Communicator& communicator, MutableView gradient, Index bucket_bytes, const Clock& clock)
      : gradient_(gradient), buckets_(communicator, gradient, bucket_bytes, clock) {}
  GradientTarget target(const MicroBatchPlace& place) override {
    return {gradient_, place.first ? kernels::Write::overwrite : kernels::Write::add, place.last};
  }
  void ready(const MicroBatchPlace&, Index first, Index last) override { buckets_.ready(first, last); }
  void finish() override { buckets_.finish(); }
  HeldUp held_up() const override {
    return {.communication = buckets_.exposed_seconds(), .stragglers = buckets_.straggler_wait_seconds()};
  }

 private:
  MutableView gradient_;
  comm::GradientBuckets buckets_;
};

}  // namespace

std::unique_ptr<GradientExchange> make_bucketed_sum(comm::Communicator& communicator, MutableView gradient,
                                                    Index bucket_bytes, const Clock& clock) {
  return std::make_unique<BucketedSum>(communicator, gradient, bucket_bytes, clock);
}

}  // namespace unisono::strategies
