#include "step.hpp"

#include <algorithm>
#include <span>

#include "parameter_average.hpp"

namespace unisono::strategies {

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
  const data::Batch batch = parallel::next_batch(run);
  models::InPlaceStep step{.rate = learning_rate,
                           .examples_before = own_examples_before(run, batch, run.communicator.size()),
                           .parameters = run.state.parameters,
                           .touched = parameters != nullptr ? parameters->touched() : nullptr};
  const int parts = parameters != nullptr ? parameters->begin_step(batch.global_size) : 1;
  for (int part = 0; part < parts; ++part) {
    parallel::compute(run, batch.size / parts, [&] {
      for (const data::ExampleRange& piece : pieces_of(batch, part, parts)) {
        run.model.in_place()->update_in_place(batch, piece, step, scratch, run.sums);
        step.examples_before += piece.size();
      }
    });
    if (part + 1 < parts) parameters->merge_after_part(part);
  }
  return batch;
}

StepRecord make_record(const data::Batch& batch, std::int64_t step, double learning_rate, bool consistent) {
  return {.step = step,
          .epoch = batch.epoch,
          .last_of_epoch = batch.last_of_epoch,
          .consistent = consistent,
          .global_size = batch.global_size,
          .learning_rate = learning_rate};
}

Segment next_segment(const TrainContext& run, std::int64_t made) {
  const std::int64_t last = run.replayed != nullptr ? run.replayed->segment_at(made).last
                                                    : std::min(run.total_steps, run.observer.next_due(made));
  return {.first = made, .last = last, .active = run.communicator.size(), .steps = last - made};
}

void continue_after(TrainContext& run, std::int64_t steps) {
  run.optimizer->set_steps(steps);  // a checkpoint has that of rank 0
  const std::int64_t steps_per_epoch = run.source.steps_per_epoch();
  run.source.seek({steps / steps_per_epoch, steps % steps_per_epoch});
}

EventOrder replayed_order(const TrainContext& run, const Segment& segment) {
  if (run.replayed == nullptr) return {};
  const auto& orders = run.replayed->segment_at(segment.first).orders;
  return EventOrder(decode(orders.at(static_cast<std::size_t>(run.communicator.rank()))));
}

void record(TrainContext& run, comm::Communicator& ranks, const Segment& segment,
            const std::vector<ServerEvent>& events) {
  run.recorder->add({.first = segment.first, .last = segment.last, .orders = ranks.all_gather_bytes(encode(events))});
}

StepRecord record_of(const TrainContext& run, comm::Communicator& ranks, const Segment& segment, std::int64_t steps,
                     Index examples, Index& before) {
  return record_of(run, ranks, segment, {{ranks.rank(), steps}}, examples, before);
}

StepRecord record_of(const TrainContext& run, comm::Communicator& ranks, const Segment& segment,
                     const std::vector<StepsOfWorker>& own, Index examples, Index& before) {
  const std::vector<StepsOfWorker> all = ranks.gather_joined(own);
  std::vector<std::int64_t> worker_steps(all.size());
  for (const StepsOfWorker& one : all) worker_steps.at(static_cast<std::size_t>(one.worker)) = one.steps;
  const Index of_all = ranks.sum(examples);
  const std::int64_t steps_per_epoch = run.source.steps_per_epoch();
  return {.step = segment.last,
          .epoch = (segment.last - 1) / steps_per_epoch,
          .last_of_epoch = segment.last % steps_per_epoch == 0,
          .consistent = true,
          .global_size = of_all - std::exchange(before, of_all),
          .learning_rate = run.schedule.rate(segment.last - 1),
          .worker_steps = std::move(worker_steps)};
}

}  // namespace unisono::strategies
