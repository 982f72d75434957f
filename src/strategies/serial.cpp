// The serial run, the reference for all parallel strategies: one rank, one step after the other.
//   A model that updates in place:   for each example i, in the epoch's order:   θ ← θ − rate · ∇ℓ_i(θ)
//   Any other:                       for each batch:                             θ ← θ − rate · direction(g)
//   Robbins & Monro, Ann. Math. Stat. 22(3), 1951.
// Cost: no messages.
#include "allreduce.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

class Serial final : public Strategy {
 public:
  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  std::optional<Traffic> traffic(const models::Model&, int, int, const data::DatasetInfo&) const override {
    return Traffic{.makes_serial_steps = true, .makes_own_steps = true};
  }
};

void Serial::require(const models::Model&, int ranks) const {
  if (ranks == 1) return;
  throw UnfitStrategy("strategy.kind = \"serial\" runs on one rank: start it without mpirun");
}

void Serial::train(TrainContext& run) {
  if (run.model.in_place() == nullptr) {
    train_with_allreduce(run, run.total_steps);
    return;
  }
  const auto scratch = run.model.in_place()->make_scratch();
  bool go_on = true;
  for (std::int64_t step = run.first_step; go_on && step < run.total_steps; ++step) {
    const double rate = run.schedule.rate(step);
    const data::Batch batch = step_in_place(run, *scratch, rate);
    go_on = run.observer.step(make_record(batch, step + 1, rate, /*consistent=*/true));
  }
}

}  // namespace

StrategyKind serial_strategy() {
  return {.name = "serial",
          .meaning = "one rank, one step after the other; the reference for the other strategies",
          .make = construct<Serial>,
          .traits = {.steps_together = true,
                     .has_one_model = true,
                     .trains_replicas = true,
                     .on_one_rank = true,
                     .simulated = true},
          .relief = relief_of_allreduce,
          .proposals = {{"one rank", {}, "the serial run"}}};
}

}  // namespace unisono::strategies
