#include "own_pace.hpp"

#include <algorithm>
#include <span>
#include <utility>

namespace unisono::strategies {

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
  std::vector<std::int64_t> of_ranks(static_cast<std::size_t>(ranks.size()));
  of_ranks[static_cast<std::size_t>(ranks.rank())] = steps;
  ranks.allreduce_sum(std::span<std::int64_t>(of_ranks));
  const Index of_all = ranks.sum(examples);
  const std::int64_t steps_per_epoch = run.source.steps_per_epoch();
  return {.step = segment.last,
          .epoch = (segment.last - 1) / steps_per_epoch,
          .last_of_epoch = segment.last % steps_per_epoch == 0,
          .consistent = true,
          .global_size = of_all - std::exchange(before, of_all),
          .learning_rate = run.schedule.rate(segment.last - 1),
          .worker_steps = std::move(of_ranks)};
}

}  // namespace unisono::strategies
