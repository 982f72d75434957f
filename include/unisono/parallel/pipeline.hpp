#pragma once

#include <memory>
#include <vector>

#include "unisono/base/clock.hpp"
#include "unisono/comm/communicator.hpp"
#include "unisono/comm/tensor_group.hpp"
#include "unisono/kernels/backend.hpp"
#include "unisono/models/model.hpp"
#include "unisono/models/staged.hpp"
#include "unisono/parallel/placement.hpp"
#include "unisono/parallel/replica.hpp"

namespace unisono::parallel {

/// What a pipeline is made of; all of it must outlive the replica.
struct PipelineTerms {
  const models::Model& model;  ///< the model, with a Staged interface
  kernels::Backend& backend;
  const Stages& stages;
  const ReplicaSettings& settings;
  comm::Communicator& pipeline;  ///< the stages of this replica, in their order, with the same part of layers
  comm::Communicator& replica;   ///< all ranks of this replica
  comm::Communicator& replicas;  ///< the same stage of all replicas
  Reducer& statistics;           ///< sums batch statistics over `replicas`, by separate messages
  const Clock& clock;
  std::shared_ptr<const Holding> held;                    ///< what this rank holds of θ
  comm::CommunicatorTensorGroup* tensor_group = nullptr;  ///< ranks that share this stage's work; null: there are none
};

/// The share of the time of a step's passes for which a stage waits by its schedule, where stages cost the same, the
/// three passes of a stage too, and messages are free.
/// \param micro_batches micro-batches of a replica in a step
double expected_bubble(const ReplicaSettings& settings, int micro_batches);

/// A replica whose ranks are the stages of a pipeline.
std::unique_ptr<Replica> make_pipelined_replica(const PipelineTerms& terms);

/// Measures the seconds that each segment of a network, between two neighbouring cut points, takes on this rank for one
/// micro-batch: the median of a few passes. Needs the memory of one segment at a time.
std::vector<PassSeconds> time_segments(const models::Staged& model, kernels::Backend& backend, Index batch,
                                       const Clock& clock = steady_clock());

}  // namespace unisono::parallel
