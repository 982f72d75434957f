#pragma once

#include <vector>

#include "pipeline/program.hpp"
#include "unisono/parallel/replica_settings.hpp"

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

// The programs of training, a file each. All are pure functions of their arguments, which are 1 or more; every number
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

}  // namespace unisono::parallel
