#include "step.hpp"

#include <algorithm>

#include "parameter_average.hpp"
#include "unisono/base/clock.hpp"

namespace unisono::strategies {
namespace {

double reducer_seconds(const TrainContext& run) {
  return run.statistics_reducer != nullptr ? run.statistics_reducer->seconds() : 0.0;
}

}  // namespace

data::Batch next_batch(TrainContext& run) {
  const Phase phase(run, run.seconds.input);
  run.backend.submit();  // the source may write over the batch before
  return run.source.next();
}

MicroBatchPlace place_of(const data::Batch& batch, bool first) {
  return {.number = batch.micro_batch, .count = batch.micro_batches, .first = first, .last = batch.last_of_step};
}

GradientTarget target_of(const TrainContext& run, const MicroBatchPlace& place, GradientExchange* exchange) {
  if (exchange != nullptr) return exchange->target(place);
  return {run.gradient, place.first ? kernels::Write::overwrite : kernels::Write::add, false};
}

float scale_of(const data::Batch& batch, MeanOver mean_over) {
  const Index examples = mean_over == MeanOver::all_replicas ? batch.global_size : batch.rank_step_size;
  return 1.0F / static_cast<float>(std::max<Index>(1, examples));
}

void settle(TrainContext& run) {
  run.backend.collect(run.sums);
  run.sums.settle();
}

data::Batch accumulate_gradient(TrainContext& run, MeanOver mean_over, GradientExchange* exchange) {
  const double reduced_before = reducer_seconds(run);
  for (bool first = true;; first = false) {
    const data::Batch batch = next_batch(run);
    const MicroBatchPlace place = place_of(batch, first);
    const GradientTarget target = target_of(run, place, exchange);
    models::GradientReady ready;
    if (target.announced) ready = [&](Index begin, Index end) { exchange->ready(place, begin, end); };
    {
      const ComputeScope computes(run, run.flops_per_example * static_cast<double>(batch.size));
      run.model.loss_and_gradient(batch, scale_of(batch, mean_over), run.state, target.gradient, target.write, ready,
                                  run.sums);
    }
    if (run.leaves > 0) {
      const Phase phase(run, run.seconds.compute);
      settle(run);
    }
    if (batch.last_of_step) {
      const double reduced = reducer_seconds(run) - reduced_before;
      run.seconds.exposed_communication += reduced;
      run.seconds.compute -= reduced;
      return batch;
    }
  }
}

data::Batch SingleReplica::gradient_of_step(TrainContext& run, MeanOver mean_over, GradientExchange* exchange) {
  return accumulate_gradient(run, mean_over, exchange);
}

void SingleReplica::evaluate(data::EvaluationSource& source, models::ModelState state, kernels::LossSums& sums) {
  while (const auto batch = source.next()) model_.evaluate(*batch, state, sums);
}

void update_parameters(TrainContext& run, double learning_rate) {
  const Phase phase(run, run.seconds.optimizer);
  run.optimizer->step(run.state.parameters, run.gradient, learning_rate);
}

void average_local_statistics(TrainContext& run, Index examples) {
  average_local_statistics(run, run.communicator, static_cast<double>(examples));
}

void average_local_statistics(TrainContext& run, comm::Communicator& group, double weight) {
  if (!run.model.statistics_are_local()) return;
  const Phase phase(run, run.seconds.exposed_communication);
  for (const FloatRange& segment : run.replica.statistics_layout().trainable()) {
    group.allreduce_weighted_mean(part(run.state.statistics, segment), weight);
  }
}

void average_optimizer_state(TrainContext& run, comm::Communicator& group, double weight) {
  const Phase phase(run, run.seconds.exposed_communication);
  for (optim::OptimizerState& state : run.optimizer->state()) {
    group.allreduce_weighted_mean(state.values.view(), weight);
  }
}

std::vector<data::ExampleRange> pieces_of(const data::Batch& batch, int part, int parts) {
  constexpr Index kPieceOfTable = 64;
  std::vector<data::ExampleRange> whole(batch.ranges.begin(), batch.ranges.end());
  for (Index first = 0; batch.set == nullptr && first < batch.size; first += kPieceOfTable) {
    whole.push_back({first, std::min<Index>(first + kPieceOfTable, batch.size)});
  }
  if (parts == 1) return whole;
  Index all = 0, before = 0;
  for (const data::ExampleRange& piece : whole) all += piece.size();
  const comm::Slice own = comm::slice_of(all, part, parts);
  std::vector<data::ExampleRange> pieces;
  for (const data::ExampleRange& piece : whole) {
    const Index first = std::max(own.first - before, Index{0}), last = std::min(own.last - before, piece.size());
    if (first < last) pieces.push_back({piece.first + first, piece.first + last});
    before += piece.size();
  }
  return pieces;
}

std::int64_t own_examples_before(const TrainContext& run, const data::Batch& batch, int replicas) {
  return (batch.epoch * run.source.examples_per_epoch() + batch.epoch_examples_before) / replicas;
}

data::Batch step_in_place(TrainContext& run, models::Scratch& scratch, double learning_rate,
                          ParameterAverage* parameters) {
  const data::Batch batch = next_batch(run);
  models::InPlaceStep step{.rate = learning_rate,
                           .examples_before = own_examples_before(run, batch, run.communicator.size()),
                           .parameters = run.state.parameters,
                           .touched = parameters != nullptr ? parameters->touched() : nullptr};
  const int parts = parameters != nullptr ? parameters->begin_step(batch.global_size) : 1;
  for (int part = 0; part < parts; ++part) {
    {
      const ComputeScope computes(run);
      for (const data::ExampleRange& piece : pieces_of(batch, part, parts)) {
        run.model.in_place()->update_in_place(batch, piece, step, scratch, run.sums);
        step.examples_before += piece.size();
      }
    }
    if (part + 1 < parts) parameters->merge_after_part(part);
  }
  return batch;
}

void meet(TrainContext& run) {
  const Phase phase(run, run.seconds.straggler_wait);
  run.communicator.barrier();
}

StepRecord make_record(const data::Batch& batch, std::int64_t step, double learning_rate, bool consistent) {
  return {.step = step,
          .epoch = batch.epoch,
          .last_of_epoch = batch.last_of_epoch,
          .consistent = consistent,
          .global_size = batch.global_size,
          .learning_rate = learning_rate};
}

}  // namespace unisono::strategies
