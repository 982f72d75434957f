#include "step.hpp"

#include <algorithm>

#include "parameter_average.hpp"
#include "unisono/base/clock.hpp"

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
    {
      const parallel::ComputeScope computes(run);
      for (const data::ExampleRange& piece : pieces_of(batch, part, parts)) {
        run.model.in_place()->update_in_place(batch, piece, step, scratch, run.sums);
        step.examples_before += piece.size();
      }
    }
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

}  // namespace unisono::strategies
