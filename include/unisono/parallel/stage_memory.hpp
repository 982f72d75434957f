#pragma once

#include <vector>

#include "unisono/kernels/backend.hpp"
#include "unisono/nn/piece.hpp"
#include "unisono/parallel/replica_settings.hpp"
#include "unisono/parallel/stages.hpp"

namespace unisono::parallel {

/// What the activations of one piece need for one micro-batch, in floats of the backend's memory.
struct FlightMemory {
  Index workspace = 0;   ///< of a flight
  Index input = 0;       ///< where activations are computed anew, it is kept instead
  Index messages = 0;    ///< one each from and to both neighbours
  Index evaluation = 0;  ///< the workspace of a forward pass that is not for training; it reuses that of a flight
};

/// \param first, last whether it is the network's first or last piece \param evaluated examples at once in evaluations
FlightMemory memory_of(const nn::Piece& piece, bool first, bool last, PipelineSchedule schedule,
                       const kernels::Backend& backend, Index batch, Index evaluated = 0);

/// How many flights of each chunk of a stage are in memory at a time.
struct StageFlights {
  struct Chunk {
    int workspaces = 0, inputs = 0;
  };
  std::vector<Chunk> chunks;
  int most = 0;  ///< micro-batches in flight, those of each chunk counted
};

/// Of the schedule's program.
StageFlights flights_of(const ReplicaSettings& settings, int stage, int micro_batches);

/// What a stage's rank needs for a step's micro-batches, in floats of the backend's memory.
struct StageMemory {
  int flights = 0;        ///< the most micro-batches at a time, those of each chunk counted
  Index activations = 0;  ///< of all flights, with their gradients and what the layers keep
  Index boundaries = 0;   ///< one message each from and to both neighbours, for each chunk

  /// \param piece one of the stage's, a chunk with these flights
  void add(const FlightMemory& piece, const StageFlights::Chunk& chunk);
};

/// \param batch examples of a micro-batch \param micro_batches of a step on this replica \param evaluated examples at
/// once in evaluations; 0: there are none
/// \pre settings are those of the stages
StageMemory memory_of(const Stages& stages, int stage, const ReplicaSettings& settings, const kernels::Backend& backend,
                      Index batch, int micro_batches, Index evaluated = 0);

}  // namespace unisono::parallel
