#pragma once

#include <vector>

#include "exchange/exchange.hpp"
#include "unisono/base/clock.hpp"
#include "unisono/strategies/phase.hpp"
#include "unisono/strategies/strategy.hpp"

// Parts of a training step that several strategies share.

namespace unisono::strategies {

/// Adds the duration of its scope to Seconds::compute, and lengthens it where `[fault]` slows this rank down.
class ComputeScope {
 public:
  /// \param flops of the pass, where they are known
  explicit ComputeScope(const TrainContext& run, double flops = 0)
      : timer_(run.seconds.compute, run.clock),
        fault_(run.fault),
        flops_(flops),
        cpu_seconds_(fault_ != nullptr ? thread_cpu_seconds() : 0) {}
  ~ComputeScope() {
    if (fault_ == nullptr) return;
    fault_->after({.cpu_seconds = thread_cpu_seconds() - cpu_seconds_, .seconds = watch_.seconds(), .flops = flops_});
  }
  ComputeScope(const ComputeScope&) = delete;
  ComputeScope& operator=(const ComputeScope&) = delete;

 private:
  ScopedTimer timer_;  // ends last
  Stopwatch watch_;
  Fault* fault_;
  double flops_, cpu_seconds_;
};

/// The run's next batch; waiting for it is counted as input.
data::Batch next_batch(TrainContext& run);

/// \param first whether it is this rank's first micro-batch of the step
MicroBatchPlace place_of(const data::Batch& batch, bool first);

/// Where a micro-batch's gradient goes. \param exchange null: they are added up in run.gradient
GradientTarget target_of(const TrainContext& run, const MicroBatchPlace& place, GradientExchange* exchange);

/// 1/n, with which the gradients of a micro-batch's examples are multiplied.
float scale_of(const data::Batch& batch, MeanOver mean_over);

/// Moves the losses of a micro-batch to exact sums, where sums are reproducible. Waits for a device that has them.
void settle(TrainContext& run);

/// What SingleReplica::gradient_of_step does. Workers of servers, which train no replicas, call it themselves.
data::Batch accumulate_gradient(TrainContext& run, MeanOver mean_over, GradientExchange* exchange = nullptr);

/// One optimizer step: updates θ from g.
void update_parameters(TrainContext& run, double learning_rate);

/// Averages the running statistics over the ranks, weighted by their examples. Does nothing where they are global, and
/// so equal on all ranks. Collective.
/// \param examples of this rank since the last average
void average_local_statistics(TrainContext& run, Index examples);
/// The same over the ranks of a group. \param weight of this rank
void average_local_statistics(TrainContext& run, comm::Communicator& group, double weight);

/// Averages the optimizer's vectors over the ranks of a group. Collective. \param weight of this rank
void average_optimizer_state(TrainContext& run, comm::Communicator& group, double weight);

/// A barrier, counted as waiting for stragglers: what is measured after it is communication alone. Collective.
void meet(TrainContext& run);

/// \param step steps made, including that of this batch
StepRecord make_record(const data::Batch& batch, std::int64_t step, double learning_rate, bool consistent);

class ParameterAverage;

/// The pieces of a batch into which threads divide an in-place update: ranges of its set, or of a table's rows.
/// \param part only the pieces of this part, of `parts` about equal parts of the batch
std::vector<data::ExampleRange> pieces_of(const data::Batch& batch, int part = 0, int parts = 1);

/// Makes one step in place on this rank's examples, on the calling thread, one piece after the other. \return the
/// step's batch
/// \param parameters with several ranks: it marks the touched rows and merges them between parts of the step; may be
/// null
data::Batch step_in_place(TrainContext& run, models::Scratch& scratch, double learning_rate,
                          ParameterAverage* parameters = nullptr);

/// How many examples each of `replicas` copies of θ was trained on before this batch: an equal share of all.
std::int64_t own_examples_before(const TrainContext& run, const data::Batch& batch, int replicas);

}  // namespace unisono::strategies
