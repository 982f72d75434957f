#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/base/counters.hpp"
#include "unisono/base/runtime.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/tensor_group.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/models/model.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/fault.hpp"
#include "unisono/parallel/slice_holding.hpp"
#include "unisono/tensor/allocator.hpp"

namespace unisono::parallel {

/// Over which ranks the values of a strategy's vector differ.
enum class StateScope {
  common,   ///< over no ranks: all hold the same values
  replica,  ///< each replica of the model has its own
  rank      ///< each rank has its own
};

/// What a strategy's vector is laid out like: θ, or the running statistics.
enum class StateOf { parameters, statistics };

/// A vector that a strategy keeps from step to step. Checkpoints store one copy, or one for each replica or rank, by
/// its scope.
struct StateVector {
  std::string name;  ///< name, which no optimizer's vector has
  StateScope scope = StateScope::common;
  StateOf of = StateOf::parameters;
  /// What a resumed run on another number of ranks keeps, where the ranks' vectors differ. True: their sum; false: each
  /// rank takes the mean.
  bool adds_up = false;
};

/// How many vectors of a strategy are of θ's size.
int vectors_of_parameters(const std::vector<StateVector>& vectors);

/// A StateVector and its values, in the backend's memory.
struct StrategyVector {
  StateVector vector;
  Buffer values;
};

class Replica;

/// When a rank computed a gradient, in seconds of its clock.
struct TimedGradient {
  double begin = 0, seconds = 0;
};

/// All that a step of a replica needs; owned by the run. Vectors lie in the backend's memory, which may be a device's.
struct StepTerms {
  comm::Communicator& communicator;  ///< over the replicas: each rank holds a whole replica, or the same part of one
  kernels::Backend& backend;
  models::Model& model;
  Replica& replica;  ///< the replica of the model that is trained
  /// The update rule; null where a whole-batch method takes its place. Where there are `state_shards`, its vectors are
  /// this rank's shards.
  optim::Optimizer* optimizer;
  data::BatchSource& source;
  models::ModelState state;  ///< θ and running statistics; on the CPU, θ comes from communicator.shared_allocator()
  MutableView gradient;      ///< g, from the same allocator as θ; empty where the model is updated in place
  /// This rank's losses since the observer last took them, which happens at consistent records; complete after
  /// backend.collect.
  kernels::LossSums& sums;
  Seconds& seconds;
  CounterSet& counters;     ///< this rank's counters since the run began or was resumed, empty at first
  std::int64_t first_step;  ///< steps made before training began: 0, or the steps of the run that is resumed
  Index bucket_bytes = 0;   ///< bytes of a gradient bucket; 0: chosen automatically
  int leaves = 0;           ///< leaves of the tree by which gradients are summed reproducibly; 0: fast sums
  /// Sums batch statistics over the ranks inside the model's passes; its seconds are subtracted from `compute`. May be
  /// null.
  const comm::CommunicatorReducer* statistics_reducer = nullptr;
  /// Sums over the ranks that share the work of layers, likewise; null: there are none.
  const comm::CommunicatorTensorGroup* tensor_group = nullptr;
  std::span<StrategyVector> vectors = {};  ///< the vectors that Strategy::state_vectors names, in its order
  /// Flops of an example's forward and backward pass through the whole model; 0: unknown.
  double flops_per_example = 0;
  /// The ranks' shards of the optimizer's state; null: each rank keeps the whole state.
  const StateShards* state_shards = nullptr;
  /// Whether the ranks share one copy of θ, to which each writes its shard; there is then one bucket.
  bool one_theta = false;
  Fault* fault = nullptr;  ///< slows this rank down on purpose; null: it is not slowed down
  /// Where each gradient's seconds are noted; null: nobody asks for them.
  std::vector<TimedGradient>* gradients = nullptr;
  /// Measures all seconds that are counted here; whoever sleeps, waits or starts work asks it.
  const Runtime& runtime = machine_runtime();
};

/// Adds the duration of its scope to one member of Seconds. Time spent waiting for a device (whose kernels run
/// asynchronously) is added to `compute` instead, wherever the wait happens.
class Phase {
 public:
  /// \param part the member of `all` to add to
  Phase(const kernels::Backend& backend, Seconds& all, double& part, const Clock& clock = steady_clock())
      : backend_(backend), all_(all), part_(part), waited_before_(backend.waited_seconds()), watch_(clock) {}
  Phase(const StepTerms& run, double& part) : Phase(run.backend, run.seconds, part, run.runtime) {}
  ~Phase() {
    const double waited = backend_.waited_seconds() - waited_before_;
    part_ += watch_.seconds() - waited;
    all_.compute += waited;
  }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const kernels::Backend& backend_;
  Seconds& all_;
  double& part_;
  double waited_before_;
  Stopwatch watch_;
};

}  // namespace unisono::parallel
