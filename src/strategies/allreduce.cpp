// Synchronous data-parallel training: all ranks step on the mean gradient over the global batch.
//     g ← Σ_r (1/n) Σ_{i ∈ batch of r} ∇ℓ_i(θ)          n: examples of the step on all ranks
//     θ ← θ − rate · direction(g)                        on every rank, with the same bits
//   Each example has the same weight, so the ranks' parts may be uneven or empty. g is summed in buckets, from its end
//   to its start, each as soon as the backward pass has finished it.
//   Goyal et al., "Accurate, large minibatch SGD", 2017; Li et al., "PyTorch distributed", VLDB 2020, for the buckets.
// Cost per step: allreduces of 4N bytes in all, N flops; local running statistics add one of their own size.
#include "allreduce.hpp"

#include "exchange/timed_exchange.hpp"
#include "step.hpp"

namespace unisono::strategies {
namespace {

class Allreduce final : public Strategy {
 public:
  void train(TrainContext& run) override { train_with_allreduce(run, run.total_steps); }
};

std::unique_ptr<Strategy> make(const StrategySettings&) { return std::make_unique<Allreduce>(); }

/// The sum over the ranks that the run asks for.
std::unique_ptr<GradientExchange> make_sum(TrainContext& run) {
  if (run.leaves == 0) return make_bucketed_sum(run.communicator, run.gradient, run.bucket_bytes, run.clock);
  return make_reproducible_sum(run.communicator, run.backend, run.gradient, run.leaves, run.bucket_bytes, run.clock);
}

}  // namespace

bool train_with_allreduce(TrainContext& run, std::int64_t last_step) {
  TimedExchange exchange(run.backend, run.seconds, make_sum(run));
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < last_step; ++step) {
    const double rate = run.schedule.rate(step);
    const data::Batch batch = run.replica.gradient_of_step(run, MeanOver::all_replicas, &exchange);
    exchange.finish();
    update_parameters(run, rate);
    average_local_statistics(run, batch.rank_step_size);
    go_on = run.observer.step(make_record(batch, step + 1, rate, /*consistent=*/true));
  }
  return go_on;
}

std::string relief_of_allreduce(const StrategySettings&, bool) {
  return "a larger train.batch_size, or strategy.kind = \"averaging\", sends fewer";
}

StrategyKind allreduce_strategy() {
  return {.name = "allreduce",
          .meaning = "all ranks make every step together, with the mean gradient over the global batch",
          .make = make,
          .traits = {.steps_together = true, .needs_gradient = true, .has_one_model = true, .trains_replicas = true},
          .relief = relief_of_allreduce};
}

}  // namespace unisono::strategies
