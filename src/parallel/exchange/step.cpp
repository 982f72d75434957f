#include "unisono/parallel/step.hpp"

#include <algorithm>

#include "unisono/models/gradient_times.hpp"

namespace unisono::parallel {
std::vector<FloatRange> counted_floats(const Holding& held) {
  std::vector<BlockRange> ranges = held.ranges();
  std::erase_if(ranges, [&](const BlockRange& range) { return held.layout().blocks()[range.block].frozen; });
  return joined(ranges);
}

void DividedReplica::sum(std::span<double> values) { ranks_.allreduce_sum(values); }

data::Batch next_batch(StepTerms& run) {
  const Phase phase(run, run.seconds.input);
  run.backend.submit();  // the source may write over the batch before
  return run.source.next();
}

MicroBatchPlace place_of(const data::Batch& batch, bool first) {
  return {.number = batch.micro_batch, .count = batch.micro_batches, .first = first, .last = batch.last_of_step};
}

GradientTarget target_of(const StepTerms& run, const MicroBatchPlace& place, GradientExchange* exchange) {
  if (exchange != nullptr) return exchange->target(place);
  return target_at({place.first, place.last}, run.gradient);
}

float scale_of(const data::Batch& batch, MeanOver mean_over) {
  const Index examples = mean_over == MeanOver::all_replicas ? batch.global_size : batch.rank_step_size;
  return 1.0F / static_cast<float>(std::max<Index>(1, examples));
}

void settle(StepTerms& run) {
  run.backend.collect(run.sums);
  run.sums.settle();
}

namespace {

/// Ranges of a gradient that are final.
struct FinalRanges {
  std::vector<FloatRange> ranges;
  void ready(Index first, Index last) { ranges.push_back({first, last}); }
};

/// Notes when a gradient was computed, where somebody wants to know it.
class GradientNote {
 public:
  explicit GradientNote(const StepTerms& run)
      : run_(run), begin_(run.gradients != nullptr ? run.runtime.seconds() : 0) {}
  ~GradientNote() {
    if (run_.gradients != nullptr) run_.gradients->push_back({begin_, run_.runtime.seconds() - begin_});
  }
  GradientNote(const GradientNote&) = delete;
  GradientNote& operator=(const GradientNote&) = delete;

 private:
  const StepTerms& run_;
  double begin_;
};

/// A gradient that takes simulated time. Its exchange is told of each range when that would be final. Where the passes
/// themselves wait for others, whose batch statistics they need, they are made when the time is over.
template <typename Gradient>
void simulate_gradient(StepTerms& run, Index examples, GradientTarget target, const Gradient& gradient) {
  if (!run.state.statistics.empty() && !run.model.statistics_are_local()) {
    const ComputeScope computes(run);
    run.runtime.compute(examples, [] {});
    return gradient(target);
  }
  FinalRanges final;
  const GradientReady told = target.ready;
  if (!told) return compute(run, examples, [&] { gradient(target); });
  target.ready = final;
  const models::GradientTimes times(run.model.summary(examples));
  const ComputeScope computes(run);
  run.runtime.compute(
      examples, [&] { gradient(target); }, models::GradientTimes::kForward,
      [&](const Runtime::PassUntil& pass_until) {
        for (const FloatRange& range : final.ranges) {
          pass_until(times.of(range.first));
          told(range.first, range.last);
        }
      });
}

}  // namespace

data::Batch accumulate_gradient(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) {
  const SumsOfLayers sums(run);
  for (bool first = true;; first = false) {
    const data::Batch batch = next_batch(run);
    const GradientTarget target = target_of(run, place_of(batch, first), exchange);
    const auto gradient = [&](const GradientTarget& into) {
      run.model.loss_and_gradient(batch, scale_of(batch, mean_over), run.state, into, run.sums);
    };
    if (run.runtime.is_virtual()) {
      simulate_gradient(run, batch.size, target, gradient);
    } else {
      const GradientNote note(run);
      const ComputeScope computes(run, run.flops_per_example * static_cast<double>(batch.size));
      gradient(target);
    }
    if (run.leaves > 0) {
      const Phase phase(run, run.seconds.compute);
      settle(run);
    }
    if (batch.last_of_step) return batch;
  }
}

data::Batch SingleReplica::gradient_of_step(StepTerms& run, MeanOver mean_over, GradientExchange* exchange) {
  return accumulate_gradient(run, mean_over, exchange);
}

void SingleReplica::evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums,
                             models::PredictionReader* reader) {
  while (const auto batch = source.next()) {
    if (reader != nullptr) {
      model_.evaluate_predictions(*batch, state, sums, *reader);
    } else {
      model_.evaluate(*batch, state, sums);
    }
  }
}

void update_parameters(StepTerms& run, double learning_rate) {
  const Phase phase(run, run.seconds.optimizer);
  run.runtime.update(std::ssize(run.state.parameters),
                     [&] { run.optimizer->step(run.state.parameters, run.gradient, learning_rate); });
}

namespace {

/// Hands on how the backward pass makes steps, where a step is one micro-batch.
class StepInPass final : public GradientExchange {
 public:
  StepInPass(MutableView gradient, const kernels::StepAtOnce& step) : gradient_(gradient), step_(step) {}
  GradientTarget target(const MicroBatchPlace& place) override {
    GradientTarget target = target_at(sum_place(place), gradient_);
    made_ = place.first && place.last;
    if (made_) target.step = &step_;
    return target;
  }
  void finish() override {}
  BlockedSeconds blocked() const override { return {}; }
  bool made() const { return made_; }

 private:
  MutableView gradient_;
  const kernels::StepAtOnce& step_;
  bool made_ = false;
};

}  // namespace

OwnSteps::OwnSteps(StepTerms& run)
    : run_(run), others_(gaps_between(run.replica.steps_at_once(), std::ssize(run.state.parameters))) {
  possible_ = others_ != std::vector<FloatRange>{{0, std::ssize(run.state.parameters)}} &&
              run.optimizer->step_at_once(run.state.parameters) != nullptr;
}

data::Batch OwnSteps::make(MeanOver mean_over, double rate, bool keeps_gradient) {
  gradient_is_whole_ = !possible_ || keeps_gradient;
  if (gradient_is_whole_) {
    const data::Batch batch = run_.replica.gradient_of_step(run_, mean_over, nullptr);
    if (batch.rank_step_size > 0) {
      update_parameters(run_, rate);
    } else {
      run_.optimizer->set_steps(run_.optimizer->steps() + 1);  // the ranks' counts stay equal
    }
    return batch;
  }
  run_.optimizer->begin_step(rate);
  const auto at_once = run_.optimizer->step_at_once(run_.state.parameters);
  StepInPass pass(run_.gradient, *at_once);
  const data::Batch batch = run_.replica.gradient_of_step(run_, mean_over, &pass);
  if (batch.rank_step_size == 0) return batch;
  const Phase phase(run_, run_.seconds.optimizer);
  gradient_is_whole_ = !pass.made();
  const std::vector<FloatRange> all = {{0, std::ssize(run_.state.parameters)}};
  run_.runtime.update(std::ssize(run_.state.parameters), [&] {
    for (const FloatRange& range : pass.made() ? others_ : all) {
      run_.optimizer->step_part(range.first, part(run_.state.parameters, range), part(View(run_.gradient), range));
    }
  });
  return batch;
}

void average_local_statistics(StepTerms& run, Index examples) {
  average_local_statistics(run, run.communicator, static_cast<double>(examples));
}

void average_local_statistics(StepTerms& run, comm::Communicator& group, double weight) {
  if (!run.model.statistics_are_local()) return;
  const Phase phase(run, run.seconds.exposed_communication);
  for (const FloatRange& segment : run.replica.statistics_layout().trainable()) {
    group.allreduce_weighted_mean(part(run.state.statistics, segment), weight);
  }
}

void average_optimizer_state(StepTerms& run, comm::Communicator& group, double weight) {
  const Phase phase(run, run.seconds.exposed_communication);
  for (optim::OptimizerState& state : run.optimizer->state()) {
    group.allreduce_weighted_mean(state.values.view(), weight);
  }
}

void meet(StepTerms& run) {
  const Phase phase(run, run.seconds.straggler_wait);
  run.communicator.barrier();
}

int vectors_of_parameters(const std::vector<StateVector>& vectors) {
  return static_cast<int>(std::ranges::count(vectors, StateOf::parameters, &StateVector::of));
}

}  // namespace unisono::parallel
