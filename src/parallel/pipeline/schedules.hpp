#pragma once

#include <optional>
#include <span>
#include <vector>

#include "pipeline/program.hpp"
#include "unisono/parallel/replica.hpp"

namespace unisono::parallel {

/// In which order a stage starts its messages, where messages move one after the other on each stage, and a send may
/// wait for its receive. All messages of a program have one common order, by the simulated ends of the passes that make
/// them, and each stage keeps to it with those that it sends and receives. So the first message that has not moved is
/// always the next one on both of its stages; and since its pass ends before that of any later message, neither stage
/// waits for a later one before. No program can deadlock then.
///
/// A receive may be started before the pass that needs it: the messages of different pieces, or directions, come in the
/// order of their sends.
struct MessageOrder {
  std::vector<std::size_t> receives;  ///< the stage's operations that need a message, in the order of these
  std::vector<std::size_t> before;    ///< [operations] how many of these are started before each operation
};

/// \pre as execution_order
MessageOrder message_order(const Program& program, int stage);

// The programs of training, all in schedules.cpp: pure functions of their arguments, which are 1 or more; every number
// of micro-batches is allowed, also fewer than stages. In the formulas there, S is the number of stages, s a stage from
// 0, m the number of micro-batches, v the chunks of a rank, and F, B, W the seconds of a stage's forward pass and of
// the two halves of its backward pass, for one micro-batch and equal on all stages.
Program naive_program(int stages, int micro_batches);
Program gpipe_program(int stages, int micro_batches);
Program one_forward_one_backward_program(int stages, int micro_batches);
Program interleaved_program(int stages, int chunks, int micro_batches);
Program zero_bubble_program(int stages, int micro_batches);

/// \throws std::logic_error where a schedule other than interleaved has more than one chunk
Program make_program(PipelineSchedule schedule, int stages, int chunks, int micro_batches);

/// The program of evaluation and prediction: forward passes alone.
Program forward_program(int stages, int chunks, int micro_batches);

/// Divides the micro-batches into groups of equal size, give or take one, of `stages` or more each where there are
/// that many; larger groups come first. A rank with several chunks runs a group through one chunk, then through the
/// next: a group that fills the pipeline leaves no stage idle between the two.
std::vector<int> interleaved_groups(int stages, int micro_batches);

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

}  // namespace unisono::parallel
