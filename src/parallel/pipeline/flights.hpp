#pragma once

#include <span>

#include "pipeline/program.hpp"

namespace unisono::parallel {

// A flight is a micro-batch in a chunk of a stage from its forward pass to the end of its backward pass (of the
// weights' half, where the two are apart): its activations are in memory. How many there are at a time depends on the
// order of a stage's operations alone, not on their times.

/// The most flights of a stage at a time, each counted with the weight of its chunk: with the bytes of the chunk's
/// activations, it is the memory that they need. 0 for programs of evaluation.
/// \param weights [chunks]
double peak_of_flights(const Program& program, int stage, std::span<const double> weights);

/// The most flights of a stage at a time, of all its chunks together.
int peak_of_flights(const Program& program, int stage);

/// The most flights of one chunk of a stage at a time: how many places its activations need.
int peak_of_flights(const Program& program, int stage, int chunk);

/// What a chunk of a stage has in memory at a time where activations are computed anew: only the input of a flight is
/// kept until its backward pass begins; its activations are there in its forward pass, and from the start of its
/// backward pass to the end of the flight.
struct RecomputedFlights {
  int inputs = 0;      ///< the most that are kept
  int workspaces = 0;  ///< the most flights whose activations are there
};
RecomputedFlights recomputed_flights(const Program& program, int stage, int chunk);

}  // namespace unisono::parallel
