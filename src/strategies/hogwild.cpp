// Lock-free training by the threads of a rank (Hogwild), between ranks with periodic averaging.
//   Every thread of a rank, on the one θ that they share, without waiting for the others:
//     a model that updates in place:   takes the next examples of the step;   θ ← θ − rate · ∇ℓ_i(θ)
//     any other:                       takes steps of its own: reads θ, g ← ∇ of a mini-batch at what it read, and
//                                      adds to θ what its optimizer makes of g
//   When two threads write the same number at once, one update is lost; that is rare where examples touch few
//   parameters. `locking` makes it impossible, at a price. Ranks: every `period` steps, and at epochs' ends,
//       θ ← Σ_r n_r θ_r / Σ_r n_r        n_r: examples that rank r has seen since the last average
//   With one thread and one rank it is the serial run, bit for bit.
//   Niu, Recht, Ré & Wright, "Hogwild!", NIPS 2011. Locked, for comparison: their RR and AIG.
// Cost: inside a rank only the cache lines that move between the threads' cores; per period one barrier and one
// allreduce of 4N bytes.
#include "hogwild.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "hogwild/in_place_steps.hpp"
#include "hogwild/worker_steps.hpp"
#include "parameter_average.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<Locking> kLockings[] = {
    {Locking::none, "none", "nothing (lock-free); some updates may be lost"},
    {Locking::striped, "striped", "the rows that the example touches, with 4096 locks; no update is lost"},
    {Locking::global, "global", "all parameters, with a single lock"}};

class Hogwild final : public Strategy {
 public:
  Hogwild(const HogwildSettings& settings, std::int64_t threads) : settings_(settings), threads_(threads) {
    if (settings.locking != Locking::none) locks_.emplace(settings.locking == Locking::global ? 1 : kStripes);
  }

  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  bool has_workers(const models::Model& model) const override { return model.in_place() == nullptr; }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int) const override {
    return ParameterAverage::bytes(model, settings_.merge, ranks);
  }

 private:
  models::RowLocks* locks() { return locks_ ? &*locks_ : nullptr; }
  bool averages_after(const TrainContext& run, std::int64_t steps) const;
  std::int64_t next_meeting(const TrainContext& run, std::int64_t step) const;
  template <typename Steps, typename Make>
  void train_by(TrainContext& run, ParameterAverage& parameters, const Steps& steps, Make make) const;

  HogwildSettings settings_;
  std::int64_t threads_;  ///< 0: as many as the rank may use
  std::optional<models::RowLocks> locks_;
};

void Hogwild::require(const models::Model& model, int) const {
  const bool may_lose = settings_.locking == Locking::none && threads_ != 1;
  if (!may_lose || model.in_place() == nullptr || !model.in_place()->needs_every_update()) return;
  throw UnfitStrategy(
      "model.averaged: the mean of the weights needs every update, but lock-free threads lose some; set "
      "strategy.locking = \"striped\" or strategy.threads = 1");
}

bool Hogwild::averages_after(const TrainContext& run, std::int64_t steps) const {
  return run.communicator.size() > 1 &&
         (steps % settings_.period == 0 || steps % run.source.steps_per_epoch() == 0 || steps == run.total_steps);
}

/// The step up to which the threads may go on without a synchronisation.
std::int64_t Hogwild::next_meeting(const TrainContext& run, std::int64_t step) const {
  const auto multiple_after = [&](std::int64_t every) { return (step / every + 1) * every; };
  std::int64_t last =
      std::min({run.total_steps, multiple_after(run.source.steps_per_epoch()), run.observer.next_due(step)});
  if (run.communicator.size() > 1) last = std::min(last, multiple_after(settings_.period));
  return last;
}

void Hogwild::train(TrainContext& run) {
  ParameterAverage parameters(run, settings_.merge);
  if (run.model.in_place() != nullptr) {
    InPlaceSteps steps(run, locks(), parameters);
    train_by(run, parameters, steps, [&](std::int64_t step) { return steps.make(step); });
  } else {
    WorkerSteps steps(run, locks());
    train_by(run, parameters, steps, [&](std::int64_t step) { return steps.make(step, next_meeting(run, step)); });
  }
}

template <typename Steps, typename Make>
void Hogwild::train_by(TrainContext& run, ParameterAverage& parameters, const Steps& steps, Make make) const {
  Index seen = 0;  // examples since the last average
  bool go_on = true;
  for (std::int64_t made = run.first_step; go_on && made < run.total_steps;) {
    StepRecord record = make(made);
    made = record.step;
    seen += steps.own_examples();
    const bool averages = averages_after(run, made);
    if (averages) {
      parallel::meet(run);
      const Index examples = std::exchange(seen, 0);
      parallel::average_local_statistics(run, examples);
      parameters.average(static_cast<double>(examples));
    } else {
      parameters.merge_after_step();
    }
    record.consistent = averages || run.communicator.size() == 1;
    go_on = run.observer.step(record) || !record.consistent;
  }
}

void describe_hogwild(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<HogwildSettings>();
  settings.describe_threads(visitor);
  visitor.choice({.name = "locking", .meaning = "what a thread locks during an update"}, own.locking, kLockings);
  visitor.field(
      {.name = "period",
       .meaning =
           "with several ranks: steps between two averages; parameters are also averaged at the end of every epoch",
       .unit = "steps",
       .minimum = 1},
      own.period);
  own.merge.describe(visitor);
}

std::unique_ptr<Strategy> make_hogwild(const StrategySettings& settings) {
  return std::make_unique<Hogwild>(settings.own.of<HogwildSettings>(), settings.threads);
}

}  // namespace

StrategyKind hogwild_strategy() {
  return {
      .name = "hogwild",
      .meaning =
          "lock-free: threads of a rank train on the same parameters without waiting for each other; ranks average at "
          "intervals",
      .describe = describe_hogwild,
      .make = make_hogwild,
      .traits = {.shares_model = true, .times_threads = true},
      .relief = relief_of_averages};
}

}  // namespace unisono::strategies
