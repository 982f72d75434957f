#pragma once

#include <vector>

#include "exchange/exchange.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/strategies/phase.hpp"
#include "unisono/strategies/strategy.hpp"

namespace unisono::strategies {

/// Counts its scope as computation, and makes it longer where the run is to be slow.
class ComputeScope {
 public:
  explicit ComputeScope(const TrainContext& run)
      : timer_(run.seconds.compute, run.clock),
        fault_(run.fault),
        cpu_seconds_(fault_ != nullptr ? thread_cpu_seconds() : 0) {}
  ~ComputeScope() {
    if (fault_ != nullptr) fault_->after(thread_cpu_seconds() - cpu_seconds_);
  }
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  ScopedTimer timer_;  // ends last
  Fault* fault_;
  double cpu_seconds_;
};

/// What the gradient of a step is the mean of.
enum class MeanOver { all_ranks, own_examples };

/// The run's next batch; waiting for it is counted as input.
data::Batch next_batch(TrainContext& run);

/// Reads the micro-batches of one step and leaves g = (1/n) Σ ∇loss over this rank's examples; n: the step's examples
/// on all ranks, or on this one.
/// \param exchange told in the last micro-batch when ranges of g are final; may be null
/// \return the last micro-batch
data::Batch accumulate_gradient(TrainContext& run, MeanOver mean_over, GradientExchange* exchange = nullptr);

/// One update of θ from g.
void update_parameters(TrainContext& run, double learning_rate);

/// Running statistics that follow each rank's own examples become one model's, weighted by these. Nothing to do where
/// they are global. Collective.
/// \param examples of this rank since the last average
void average_local_statistics(TrainContext& run, Index examples);

/// The optimizer's vectors become their mean over the ranks, weighted by these. Collective.
void average_optimizer_state(TrainContext& run, Index examples);

/// Waits until all ranks are here, and counts it as waiting for stragglers, so that what is measured behind it is
/// communication alone. Collective.
void meet(TrainContext& run);

/// \param step steps made, the one of this batch included
StepRecord make_record(const data::Batch& batch, std::int64_t step, double learning_rate, bool consistent);

class ParameterAverage;

/// The pieces of a batch that threads may update in place at the same time: ranges of its set, or of a table's rows.
/// \param part of so many about equal ones that the batch is cut into
std::vector<data::ExampleRange> pieces_of(const data::Batch& batch, int part = 0, int parts = 1);

/// Trains on all of this rank's part of a step in place, on the calling thread, one piece after the other. \return its
/// batch
/// \param parameters of several ranks: whose rows are marked, and merged between the step's parts; may be null
data::Batch step_in_place(TrainContext& run, models::Scratch& scratch, double learning_rate,
                          ParameterAverage* parameters = nullptr);

/// How many examples one of so many replicas of θ was trained on before this batch: its share of all.
std::int64_t own_examples_before(const TrainContext& run, const data::Batch& batch, int replicas);

}  // namespace unisono::strategies
