#pragma once

#include <optional>
#include <span>

#include "pipeline/program.hpp"
#include "unisono/parallel/replica_settings.hpp"

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

/// The length of a step by the formula of its schedule, where messages are free; nothing where there is no formula
/// (interleaved and zero_bubble with fewer micro-batches than stages): the simulator knows.
///   naive            m·S(F+B+W)
///   gpipe, 1f1b      (m+S−1)(F+B+W)
///   interleaved      (m+(S−1)/v)(F+B+W)                      m ≥ S
///   zero_bubble      m(F+B+W) + (S−1)·max(F, B, F+B−W)       m ≥ S
/// \param stage of each stage, all its chunks
std::optional<double> formula_seconds(PipelineSchedule schedule, int stages, int chunks, int micro_batches,
                                      const PassSeconds& stage);

/// The most flights of a stage at a time, in micro-batches × chunks.
///   naive 1; gpipe m; 1f1b min(m, S−s)
///   interleaved      min(vm, (v−1)g + 2(S−s) − 1)            g: the largest of interleaved_groups; S where S divides m
///   zero_bubble      min(m, S)
int formula_flights(PipelineSchedule schedule, int stages, int chunks, int micro_batches, int stage);

}  // namespace unisono::parallel
