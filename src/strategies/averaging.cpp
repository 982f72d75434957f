// Periodic parameter averaging (local SGD), post-local where `allreduce_epochs` come first.
//   Every rank steps on its own part of each batch, with the mean gradient over that part. After each `period` steps,
//   at the end of an epoch and at the end of the run
//       θ ← Σ_r n_r θ_r / Σ_r n_r        n_r: examples that rank r has seen since the last average
//   (row by row for a model that has rows, see parameter_average.cpp). The running statistics are averaged likewise.
//   The optimizer's state is averaged in the same way, kept, or reset to zero. A rank without examples in a step leaves
//   its parameters as they are. Period 1 with plain SGD equals allreduce, however uneven the parts, because both are
//   linear in g: Σ_r n_r (θ − rate · g_r) / Σ_r n_r = θ − rate · g. McDonald, Hall, Mann, NAACL 2010; Stich, ICLR 2019;
//   post-local: Lin et al., ICLR 2020.
// Cost per period: one barrier and one allreduce of 4N bytes; with k averaged state vectors 1 + k allreduces of 4N
// bytes each. No message in the steps between.
#include "averaging.hpp"

#include <algorithm>
#include <utility>

#include "allreduce.hpp"
#include "step.hpp"
#include "unisono/base/errors.hpp"

namespace unisono::strategies {
namespace {

constexpr Named<StateAtAverage> kStatesAtAverage[] = {
    {StateAtAverage::average, "average", "it is averaged like the parameters"},
    {StateAtAverage::keep, "keep", "every rank keeps its own state"},
    {StateAtAverage::reset, "reset", "it is set to zero, as at the start of a run"}};

class Averaging final : public Strategy {
 public:
  explicit Averaging(const AveragingSettings& settings) : settings_(settings) {}
  void require(const models::Model& model, int ranks) const override;
  void train(TrainContext& run) override;
  bool optimizer_state_is_local() const override { return settings_.optimizer_state == StateAtAverage::keep; }
  std::int64_t extra_bytes(const models::Model& model, int ranks, int) const override {
    return ParameterAverage::bytes(model, settings_.merge, ranks);
  }

 private:
  void average(TrainContext& run, ParameterAverage& parameters, Index examples) const;

  AveragingSettings settings_;
};

/// A step on this rank's own examples.
/// \return the last micro-batch
data::Batch local_step(TrainContext& run, double learning_rate) {
  const data::Batch batch = run.replica.gradient_of_step(run, MeanOver::own_examples, nullptr);
  if (batch.rank_step_size > 0) {
    update_parameters(run, learning_rate);
  } else {
    run.optimizer->set_steps(run.optimizer->steps() + 1);  // the ranks' counts stay equal
  }
  return batch;
}

/// Refuses allreduce_epochs for models that are updated in place: they have no gradient to sum.
void Averaging::require(const models::Model& model, int) const {
  if (model.in_place() == nullptr || settings_.allreduce_epochs == 0) return;
  throw ConfigError(
      "strategy.allreduce_epochs: this model is updated in place, example by example, so there is no gradient to sum; "
      "set it to 0");
}

void Averaging::train(TrainContext& run) {
  const std::int64_t together = std::min(run.total_steps, settings_.allreduce_epochs * run.source.steps_per_epoch());
  bool go_on = run.first_step >= together || train_with_allreduce(run, together);
  const auto scratch = run.model.in_place() != nullptr ? run.model.in_place()->make_scratch() : nullptr;

  ParameterAverage parameters(run, settings_.merge);
  Index seen = 0;  // examples since the last average
  for (std::int64_t step = std::max(run.first_step, together); go_on && step < run.total_steps; ++step) {
    const double rate = run.schedule.rate(step);
    const data::Batch batch = scratch ? step_in_place(run, *scratch, rate, &parameters) : local_step(run, rate);
    seen += batch.rank_step_size;
    const std::int64_t made = step + 1;
    const bool averages = made % settings_.period == 0 || batch.last_of_epoch || made == run.total_steps;
    if (averages) {
      average(run, parameters, std::exchange(seen, 0));
    } else {
      parameters.merge_after_step();
    }
    go_on = run.observer.step(make_record(batch, made, rate, /*consistent=*/averages)) || !averages;
  }
}

void Averaging::average(TrainContext& run, ParameterAverage& parameters, Index examples) const {
  meet(run);
  average_local_statistics(run, examples);
  parameters.average(examples);
  if (settings_.optimizer_state == StateAtAverage::average) average_optimizer_state(run, examples);
  if (settings_.optimizer_state == StateAtAverage::reset) run.optimizer->reset();
}

void describe(StrategySettings& settings, ConfigVisitor& visitor) {
  auto& own = settings.own.of<AveragingSettings>();
  visitor.field({.name = "period",
                 .meaning = "steps between two averages; parameters are also averaged at the end of every epoch",
                 .unit = "steps",
                 .minimum = 1},
                own.period);
  own.merge.describe(visitor);
  visitor.choice(
      {.name = "optimizer_state", .meaning = "what happens to the optimizer's state when parameters are averaged"},
      own.optimizer_state, kStatesAtAverage);
  visitor.field({.name = "allreduce_epochs",
                 .meaning = "epochs of allreduce at the start of the run, before local steps begin (post-local SGD)",
                 .unit = "epochs",
                 .minimum = 0,
                 .maximum = 1e9},
                own.allreduce_epochs);
}

void check(const StrategySettings& settings, const StrategyTerms& terms, ConfigVisitor& visitor) {
  visitor.require("strategy", settings.own.of<AveragingSettings>().allreduce_epochs <= terms.epochs,
                  "strategy.allreduce_epochs is larger than train.epochs, so nothing would ever be averaged; use kind "
                  "= \"allreduce\", or more epochs");
}

std::unique_ptr<Strategy> make(const StrategySettings& settings) {
  return std::make_unique<Averaging>(settings.own.of<AveragingSettings>());
}

}  // namespace

StrategyKind averaging_strategy() {
  return {.name = "averaging",
          .meaning = "local SGD: ranks make steps on their own and average their parameters at intervals",
          .describe = describe,
          .check = check,
          .make = make,
          .traits = {.has_one_model = true, .trains_replicas = true},
          .relief = relief_of_averages};
}

}  // namespace unisono::strategies
