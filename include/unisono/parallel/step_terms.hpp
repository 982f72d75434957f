#pragma once

#include <cstdint>
#include <span>

#include "unisono/base/clock.hpp"
#include "unisono/base/counters.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/data/batch.hpp"
#include "unisono/models/model.hpp"
#include "unisono/optim/optimizer.hpp"
#include "unisono/parallel/fault.hpp"
#include "unisono/parallel/state_shards.hpp"
#include "unisono/parallel/strategy_vector.hpp"

namespace unisono::parallel {

class Replica;

/// All that a step of a replica needs; owned by the run. Vectors lie in the backend's memory, which may be a device's.
struct StepTerms {
  comm::Communicator& communicator;  ///< over the replicas: each rank holds a whole replica, or the same part of one
  kernels::Backend& backend;
  models::Model& model;
  Replica& replica;  ///< of the model: what is trained
  /// Null where a whole-batch method takes its place. Where there are `state_shards`, its vectors are this rank's
  /// shards.
  optim::Optimizer* optimizer;
  data::BatchSource& source;
  models::ModelState state;  ///< θ and running statistics; on the CPU, θ comes from communicator.shared_allocator()
  MutableView gradient;      ///< g, from the same allocator as θ; empty where the model is updated in place
  /// This rank's losses since the observer last took them, which it does at consistent records; complete after
  /// backend.collect.
  kernels::LossSums& sums;
  Seconds& seconds;
  CounterSet& counters;     ///< of this rank since the run began or was resumed; empty then
  std::int64_t first_step;  ///< steps made before training began: 0, or those of the run that is resumed
  Index bucket_bytes = 0;   ///< of a gradient bucket; 0: chosen automatically
  int leaves = 0;           ///< of the tree by which gradients are summed reproducibly; 0: fast sums
  /// Sums batch statistics over the ranks inside the model's passes; its seconds are subtracted from `compute`. May be
  /// null.
  const comm::CommunicatorReducer* statistics_reducer = nullptr;
  std::span<StrategyVector> vectors = {};     ///< those of Strategy::state_vectors, in the same order
  double flops_per_example = 0;               ///< of the whole model, forward and backward; 0: unknown
  const StateShards* state_shards = nullptr;  ///< of the optimizer, among the ranks; null: each keeps its whole state
  bool one_theta = false;  ///< the ranks share one copy of θ, to which each writes its shard; there is one bucket then
  Fault* fault = nullptr;  ///< slows this rank down on purpose; null: it is not slowed down
  const Clock& clock = steady_clock();  ///< measures all seconds that are counted here
};

}  // namespace unisono::parallel
