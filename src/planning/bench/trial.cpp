#include "bench/trial.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "unisono/comm/counters.hpp"
#include "unisono/parallel/phase.hpp"
#include "unisono/session/rank_checks.hpp"

namespace unisono::planning {
namespace {

constexpr std::int64_t kWarmUpSteps = 8;

/// Records only when steps end.
class StepClock final : public strategies::Observer {
 public:
  bool step(const strategies::StepRecord&) override {
    ends_.push_back(watch_.seconds());
    return true;
  }
  std::int64_t next_due(std::int64_t step) const override { return step + 1; }
  /// The median of the steps' seconds, which single disturbed steps do not affect.
  double median_seconds() const {
    std::vector<double> lengths;
    for (std::size_t i = 1; i < ends_.size(); ++i) lengths.push_back(ends_[i] - ends_[i - 1]);
    if (lengths.empty()) return ends_.empty() ? 0 : ends_.front();
    const auto middle = lengths.begin() + static_cast<std::ptrdiff_t>(lengths.size() / 2);
    std::nth_element(lengths.begin(), middle, lengths.end());
    return *middle;
  }

 private:
  Stopwatch watch_;
  std::vector<double> ends_;
};

}  // namespace

BenchTrial::BenchTrial(const session::PlacedRanks& ranks, const models::ModelInputs& inputs, Log& log)
    : world_(ranks.group),
      config_(ranks.settled.config),
      place_(world_),
      parts_({world_, place_, log}, config_, inputs),
      training_(parts_, config_),
      source_(inputs, session::source_options(parts_, config_)),
      fault_(config_.fault, static_cast<std::uint64_t>(config_.seed), ranks.given_rank) {
  session::require_examples(config_, parts_, config_.train.batch_size);
  parts_.initialise(static_cast<std::uint64_t>(config_.seed));
}

BenchTiming BenchTrial::warm_up() {
  const BenchTiming first = run(kWarmUpSteps);
  return on_device() ? run(kWarmUpSteps) : first;
}

BenchTiming BenchTrial::run(std::int64_t steps) {
  const optim::Schedule schedule({}, config_.optimizer.learning_rate, made_ + steps, source_.steps_per_epoch());
  StepClock clock;
  training_.seconds = {};
  training_.counters = {};
  parts_.share_parameters();
  strategies::TrainContext context{session::step_terms(parts_, training_, config_, {source_, made_}),
                                   {.optimizer_settings = config_.optimizer,
                                    .schedule = schedule,
                                    .observer = clock,
                                    .total_steps = made_ + steps,
                                    .threads = parts_.placement.threads},
                                   {},
                                   {}};
  if (config_.fault.is_on()) context.fault = &fault_;
  world_.barrier();
  const auto before = work_of(*parts_.backend);
  const Stopwatch watch;
  parts_.strategy->train(context);
  {
    const parallel::Phase phase(*parts_.backend, training_.seconds, training_.seconds.compute);
    parts_.backend->collect(training_.sums);  // waits for the device's pending work
  }
  std::array<double, 2> slowest = {watch.seconds(), clock.median_seconds()};
  // Where steps end on a device nobody looks.
  if (on_device()) slowest[1] = slowest[0] / static_cast<double>(steps);
  training_.seconds.other = slowest[0] - training_.seconds.sum();
  world_.allreduce_max(std::span<double>(slowest));
  made_ += steps;
  return {.steps = steps,
          .seconds = slowest[0],
          .median_step_seconds = slowest[1],
          .parts = comm::mean_seconds(world_, training_.seconds, parts_.trains()),
          .counters = comm::combine(world_, training_.counters, Shown::in_summary),
          .device = device_steps(before, work_of(*parts_.backend), steps)};
}

}  // namespace unisono::planning
