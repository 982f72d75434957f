#pragma once

#include "unisono/base/clock.hpp"
#include "unisono/parallel/counters.hpp"
#include "unisono/parallel/exchange.hpp"
#include "unisono/parallel/replica.hpp"
#include "unisono/parallel/step_terms.hpp"

// Parts of a replica's training step.

namespace unisono::parallel {

/// Adds the duration of its scope to Seconds::compute, and lengthens it where `[fault]` slows this rank down.
class ComputeScope {
 public:
  /// \param flops flops of the pass; 0: unknown
  explicit ComputeScope(const StepTerms& run, double flops = 0)
      : timer_(run.seconds.compute, run.runtime),
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

/// The seconds that layers spend in sums over ranks, in passes of its scope, count as communication, not as compute.
/// The bytes of sums over ranks that share layers are counted.
class SumsOfLayers {
 public:
  explicit SumsOfLayers(StepTerms& run) : run_(run), before_(seconds()), bytes_before_(bytes()) {}
  ~SumsOfLayers() {
    if (run_.tensor_group != nullptr) run_.counters.of<TensorCounters>().bytes += bytes() - bytes_before_;
    const double passed = seconds() - before_;
    run_.seconds.exposed_communication += passed;
    run_.seconds.compute -= passed;
  }
  SumsOfLayers(const SumsOfLayers&) = delete;
  SumsOfLayers& operator=(const SumsOfLayers&) = delete;

 private:
  double seconds() const {
    return (run_.statistics_reducer != nullptr ? run_.statistics_reducer->seconds() : 0.0) +
           (run_.tensor_group != nullptr ? run_.tensor_group->seconds() : 0.0);
  }

  std::int64_t bytes() const { return run_.tensor_group != nullptr ? run_.tensor_group->bytes() : 0; }

  StepTerms& run_;
  double before_;
  std::int64_t bytes_before_;
};

/// Runs `work`, a computation on so many examples that waits for nobody. Its seconds, which may be simulated, count as
/// computation.
template <typename Work>
void compute(const StepTerms& run, Index examples, const Work& work) {
  const ComputeScope computes(run);
  if (run.runtime.is_virtual()) return run.runtime.compute(examples, work);
  work();
}

/// The run's next batch; waiting for it is counted as input.
data::Batch next_batch(StepTerms& run);

/// The place of a micro-batch in its step. \param first whether it is this rank's first micro-batch of the step
MicroBatchPlace place_of(const data::Batch& batch, bool first);

/// Where a micro-batch's gradient goes. \param exchange null: gradients are added up in run.gradient
GradientTarget target_of(const StepTerms& run, const MicroBatchPlace& place, GradientExchange* exchange);

/// 1/n, with which the gradients of a micro-batch's examples are multiplied.
float scale_of(const data::Batch& batch, MeanOver mean_over);

/// Moves the losses of a micro-batch to exact sums, where sums are reproducible. Waits for a device that has them.
void settle(StepTerms& run);

/// Reads the micro-batches of a step and accumulates their gradient, as SingleReplica::gradient_of_step does. Workers
/// of servers, which train no replicas, call it directly.
data::Batch accumulate_gradient(StepTerms& run, MeanOver mean_over, GradientExchange* exchange = nullptr);

/// One optimizer step: updates θ from g.
void update_parameters(StepTerms& run, double learning_rate);

/// Steps on the gradient of this replica alone. Where the rule, the device and the replica allow it, layers make the
/// steps of their weights inside of the backward pass: that part of g is then neither written nor read. The bits are
/// those of gradient_of_step and update_parameters.
class OwnSteps {
 public:
  explicit OwnSteps(StepTerms& run);
  /// Makes a step; without examples it only counts. \param keeps_gradient whether all of g is read afterwards
  /// \return the step's last micro-batch
  data::Batch make(MeanOver mean_over, double rate, bool keeps_gradient);
  bool gradient_is_whole() const { return gradient_is_whole_; }  ///< after the last step

 private:
  StepTerms& run_;
  std::vector<FloatRange> others_;  ///< whose steps the backward pass does not make
  bool possible_, gradient_is_whole_ = true;
};

/// Averages the running statistics over the ranks, weighted by their examples. Does nothing where the statistics are
/// global, and so equal on all ranks. Collective.
/// \param examples examples of this rank since the last average
void average_local_statistics(StepTerms& run, Index examples);
/// Averages the running statistics over the ranks of a group. Collective. \param weight weight of this rank
void average_local_statistics(StepTerms& run, comm::Communicator& group, double weight);

/// Averages the optimizer's vectors over the ranks of a group. Collective. \param weight weight of this rank
void average_optimizer_state(StepTerms& run, comm::Communicator& group, double weight);

/// A barrier, counted as waiting for stragglers: what is measured after it is communication alone. Collective.
void meet(StepTerms& run);

}  // namespace unisono::parallel
