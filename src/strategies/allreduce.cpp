// Synchronous data-parallel training: all ranks step on the mean gradient over the global batch.
//     g ← Σ_r (1/n) Σ_{i ∈ batch of r} ∇ℓ_i(θ)          n: examples of the step on all ranks
//     θ ← θ − rate · direction(g)                        on every rank, with the same bits
//   Each rank's part counts by its examples, so parts may be uneven or empty. g is summed in buckets, from its end to
//   its start, each as soon as the backward pass has finished it.
//   Goyal et al., "Accurate, large minibatch SGD", 2017; Li et al., "PyTorch distributed", VLDB 2020, for the buckets.
// Cost a step: allreduces of 4N bytes together, N flops; running statistics that are local add one of their own size.
#include "allreduce.hpp"

#include <utility>

#include "step.hpp"
#include "unisono/comm/buckets.hpp"

namespace unisono::strategies {
namespace {

/// The steps of a run, and the buckets that they share.
class AllreduceSteps {
 public:
  explicit AllreduceSteps(TrainContext& run)
      : run_(run),
        buckets_(run.communicator, run.gradient, run.bucket_bytes),
        start_bucket_([this](Index first, Index last) {
          const DeviceWait wait(*this);
          buckets_.ready(first, last);
        }) {}

  data::Batch make(double learning_rate) {
    const data::Batch batch =
        accumulate_gradient(run_, MeanOver::all_ranks, start_bucket_, [this] { return waited(); });
    const double device_before = device_seconds_;
    {
      const DeviceWait wait(*this);
      buckets_.finish();
    }
    run_.seconds.compute += device_seconds_ - device_before;
    account_for_waiting();
    update_parameters(run_, learning_rate);
    average_local_statistics(run_, batch.rank_step_size);
    return batch;
  }

 private:
  /// Counts what buckets have waited for a device's gradient, which is computation.
  class DeviceWait {
   public:
    explicit DeviceWait(AllreduceSteps& steps) : steps_(steps), before_(steps.run_.backend.waited_seconds()) {}
    ~DeviceWait() { steps_.device_seconds_ += steps_.run_.backend.waited_seconds() - before_; }
    DeviceWait(const DeviceWait&) = delete;
    DeviceWait& operator=(const DeviceWait&) = delete;

   private:
    AllreduceSteps& steps_;
    double before_;
  };

  double exposed() const { return buckets_.exposed_seconds() - device_seconds_; }
  double waited() const { return exposed() + buckets_.straggler_wait_seconds(); }

  void account_for_waiting() {
    const double now_exposed = exposed(), straggler_wait = buckets_.straggler_wait_seconds();
    run_.seconds.exposed_communication += now_exposed - std::exchange(exposed_, now_exposed);
    run_.seconds.straggler_wait += straggler_wait - std::exchange(straggler_wait_, straggler_wait);
  }

  TrainContext& run_;
  comm::GradientBuckets buckets_;
  models::GradientReady start_bucket_;
  double exposed_ = 0, straggler_wait_ = 0;  ///< of the buckets, as far as accounted for
  double device_seconds_ = 0;                ///< of the former
};

class Allreduce final : public Strategy {
 public:
  void train(TrainContext& run) override { train_with_allreduce(run, run.total_steps); }
};

}  // namespace

bool train_with_allreduce(TrainContext& run, std::int64_t last_step) {
  AllreduceSteps steps(run);
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < last_step; ++step) {
    const double rate = run.schedule.rate(step);
    const data::Batch batch = steps.make(rate);
    go_on = run.observer.step(make_record(batch, step + 1, rate, /*consistent=*/true));
  }
  return go_on;
}

std::unique_ptr<Strategy> make_allreduce(const StrategySettings&) { return std::make_unique<Allreduce>(); }

std::string relief_of_allreduce(const StrategySettings&, bool) {
  return "a larger train.batch_size, or strategy.kind = \"averaging\", sends fewer";
}

}  // namespace unisono::strategies
